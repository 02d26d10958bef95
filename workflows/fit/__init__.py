"""Fit of task groups on the nodes of their pool: rows read into ``scheduling.fit``, verdicts told in words.

Advisory: the scheduler decides. What the verdict knows is what the observer keeps: nodes, the tasks of this
service that stand on them, and, where it may look, what pods of others hold there.
"""
