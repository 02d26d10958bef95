"""Will a gang ever run, would it run now, and where: a calculation over a snapshot of a pool's nodes.

Advisory: the scheduler decides. Pure; reading rows into a ``Snapshot`` and telling people is the caller's.
"""
