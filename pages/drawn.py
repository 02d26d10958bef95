"""What pages are made from, kept for a short time: one making serves all readers with the same rights.

A page that updates itself is requested every few seconds by each of its readers, and mostly nothing has
changed; and a verdict on 5,000 nodes costs a few tenths of a second. So what was made is kept in this process
under a key that names the page and what the reader may see (``Grants``). A version is a text that differs
where the rows differ (``pages.pool_rows``). The caller and their rights are read with each request, before
anything here is looked up.

Rejected: answers by time alone. A map of 250 nodes takes a tenth of a second of a processor, and its only
reader would cause that every few seconds.
"""

from typing import Any, Final

from web.recent_values import RecentValues

drawn_pages: Final[RecentValues[Any]] = RecentValues(most=30)
"""What pages show; of a pool of 5,000 nodes one takes about 2 MiB."""

drawn_explanations: Final[RecentValues[Any]] = RecentValues(most=300)
"""Why groups wait: sentences and numbers, a few KiB each."""
