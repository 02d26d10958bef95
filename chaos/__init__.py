"""The fault harness: hundreds of task groups while everything around them fails, and a count at the end.

``python -m chaos`` starts servers of its own, works them under seeded faults, heals all of it, waits until
the service has come to rest, and compares the database, the cluster and the log of what was submitted.
Nothing can be handed in: it kills processes, flushes Redis and deletes objects, and so touches only what it
started itself. See docs/reference/chaos.md.
"""
