"""Shift the wall clock of one Python process by ``CHAOS_SKEW_SECONDS``; first on its PYTHONPATH.

Covers what Python asks (``time.time``, ``datetime.now``, ``gmtime`` and the like) in all threads; not the
monotonic clock, which no clock setting changes, and not C libraries such as OpenSSL.
"""

import os
from datetime import UTC, datetime, timedelta

import time_machine

_later = datetime.now(UTC) + timedelta(seconds=float(os.environ["CHAOS_SKEW_SECONDS"]))
time_machine.travel(_later, tick=True).start()
