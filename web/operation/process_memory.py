"""The memory settings of every long-lived process of the service: Python's collector and glibc's heaps.

By default the garbage collector walks all live objects again and again: with Django loaded that is some
130,000 objects, and a workflow of 10,000 tasks makes millions more that are no garbage. Measured on parsing,
checking and rendering a workflow of 1,000 or 10,000 tasks: half of the time. So everything that was loaded at
the start is frozen, and the collector looks for young garbage less often. Reference counting, which frees
nearly everything, is unchanged.

glibc maps a block of its own for what is larger than a threshold, and unmaps it when it is freed. But the
threshold grows with the largest block that was ever freed, to 32 MiB; from then on the text of an answer lies
in a heap, and a small object behind it keeps it there. After a thousand answers of 1 MiB a process kept
228 MiB, and 105 MiB with a threshold that stays. It also gives a process up to eight heaps for each core, one
for each thread that finds the others in use, and each keeps what its fullest moment took.
"""

import ctypes
import gc

YOUNG_OBJECTS = 20_000
"""New containers before the collector looks at the young ones; Python's own number is 700."""
LARGE_BYTES = 256 * 1024
HEAPS = 2
_M_MMAP_THRESHOLD, _M_ARENA_MAX = -3, -8  # malloc.h


def settle() -> None:
    """Freeze all loaded objects; call once, at the end of loading. Their pages stay shared after a fork."""
    return_large_blocks()
    gc.collect()
    gc.freeze()
    gc.set_threshold(YOUNG_OBJECTS, 20, 20)


def return_large_blocks() -> None:
    """Keep the threshold where it is, and the heaps few. Does nothing under another C library."""
    if mallopt := getattr(ctypes.CDLL(None), "mallopt", None):
        mallopt(_M_MMAP_THRESHOLD, LARGE_BYTES)
        mallopt(_M_ARENA_MAX, HEAPS)
