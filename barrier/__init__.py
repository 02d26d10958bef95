"""The program of the start barrier: it waits until the tasks of a gang have addresses in DNS.

It runs before a task's command, as the last init container of its pod, in this service's image or in another
that keeps the same command line and exit codes. It needs Python's standard library alone and neither settings
nor a database, and talks to DNS servers only. It promises only that names resolved once; whether the programs
behind them answer is the tasks' own business.
"""

COMMAND = ("python", "-S", "-m", "barrier")
"""How it is started in this service's image."""

NO_ADDRESS = 75
"""Exit code (EX_TEMPFAIL): a peer had no address when the limit was over."""

MISCONFIGURED = 78
"""Exit code (EX_CONFIG): a file that the pod mounts, or resolv.conf, cannot be read."""
