"""How the threads of a process share Python's interpreter."""

import sys
from typing import Final

SWITCH_SECONDS: Final = 0.0005
"""For how long a thread computes before it lets others in; Python's default is 5 ms."""


def share_interpreter() -> None:
    """Shorten the wait of a thread that has something to do for one that computes. Holds in children, too.

    A worker's thread that creates thousands of pods gives up the interpreter at every request; web's event
    loop does so whenever it waits, its threads at every statement. With the default each of those may cost
    them 5 ms as long as any other thread is busy, for example with the answer on a wide workflow.
    """
    sys.setswitchinterval(SWITCH_SECONDS)
