"""The settings of Python's garbage collector in every long-lived process of the service.

By default it walks all live objects again and again: with Django loaded that is some 130,000 objects, and a
workflow of 10,000 tasks makes millions more that are no garbage. Measured on parsing, checking and rendering
a workflow of 1,000 or 10,000 tasks: half of the time. So everything that was loaded at the start is frozen,
and the collector looks for young garbage less often. Reference counting, which frees nearly everything, is
unchanged.
"""

import gc

YOUNG_OBJECTS = 20_000
"""New containers before the collector looks at the young ones; Python's own number is 700."""


def settle() -> None:
    """Freeze all loaded objects; call once, at the end of loading. Their pages stay shared after a fork."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(YOUNG_OBJECTS, 20, 20)
