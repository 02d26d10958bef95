"""How Python's garbage collector is set in every long-lived process of the service.

By default it walks all that is alive again and again: with Django loaded that is some 130,000 objects, and a
workflow of 10,000 tasks makes millions more that are no garbage. Measured on parsing, checking and rendering
one of 1,000 or 10,000 tasks: half of the time. So what was loaded at the start is taken out of its sight,
and it looks for young garbage less often. Reference counting, which frees nearly everything, is as before.
"""

import gc

YOUNG_OBJECTS = 20_000
"""New containers before the collector looks at the young ones; Python's own number is 700."""


def settle() -> None:
    """Call once, when everything is loaded. Pages of what is frozen stay shared after a fork."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(YOUNG_OBJECTS, 20, 20)
