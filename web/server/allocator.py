"""How this process's memory goes back to the system.

glibc maps a block of its own for what is larger than a threshold, and unmaps it when it is freed. But the
threshold grows with the largest block that was ever freed, to 32 MiB; from then on the text of an answer lies
in a heap, and a small object behind it keeps it there. After a thousand answers of 1 MiB a process kept
228 MiB, and 105 MiB with a threshold that stays.
"""

import ctypes

LARGE_BYTES = 256 * 1024
_M_MMAP_THRESHOLD = -3  # malloc.h


def return_large_blocks() -> None:
    """Keep the threshold where it is. Does nothing under another C library."""
    if mallopt := getattr(ctypes.CDLL(None), "mallopt", None):
        mallopt(_M_MMAP_THRESHOLD, LARGE_BYTES)
