"""Will a gang ever run, would it run now, and where: a calculation over a snapshot of a pool's nodes.

Advisory: the scheduler decides. Pure: the caller reads rows into a ``Snapshot`` and writes the sentences.
"""
