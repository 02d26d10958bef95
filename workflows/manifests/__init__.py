"""Everything we put into a cluster for a task group, rendered from frozen values alone.

A dry run and a worker call the same functions, so what is shown is what is made. Nothing here depends on
the clock, on chance or on what is in the cluster: rendered twice it is the same, which is what makes a
repeated create meet its own object and a retried pod get the parts of the one it replaces.
"""
