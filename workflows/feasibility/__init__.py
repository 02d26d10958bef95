"""Whether and where task groups fit a pool: rows read into ``scheduling.fit``, verdicts in words, quota, use.

Advisory: the scheduler decides. Everything here is answered from rows: nodes as last observed, the tasks of
this service that stand on them, and what other tenants' pods hold there, which counts as nothing where they
cannot be followed.
"""
