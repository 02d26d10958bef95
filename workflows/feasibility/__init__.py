"""Whether and where task groups fit a pool: verdicts, their sentences, quota and usage.

Advisory: the scheduler decides. Everything is answered from rows: nodes as last observed, the tasks of this
service on them, and the usage of other tenants' pods, which counts as 0 where they cannot be followed.
"""
