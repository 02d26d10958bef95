"""A stand-in for KAI's scheduler and binder, in each version of ``versions``.

The core is one pure function, ``cycle.schedule``: a ``Snapshot`` in, ``Decisions`` out. Around it stand
``mirror`` (list and watch), ``reader`` (objects to values), ``writer`` (decisions to requests) and
``loop``. Quoted titles are sections of docs/explanation/kai-behaviour.md.

Not played, so nothing may be concluded from its absence here:

- fair shares of queues, reclaim above a guarantee, use over time, queue order by share of a guarantee,
- consolidation of a part of a running gang: here whole groups are moved, and the search ends after 24 trials,
- preemption task by task (v0.13) and for a part of a running gang; here whole groups are evicted,
- ``minSubGroup``, topology alias, NUMA, ``schedulingBackoff``, ``preemptionDelay``, minimum run times,
- volumes that exist but are not bound or bound elsewhere, preferred terms of affinity,
- BindRequest objects and the back-off between failed bindings (a binding is made directly, through
  ``pods/binding``; its failure stands in the pod),
- GPU fractions and MIG,
- ``status.resourcesStatus`` of pod groups, which another controller of KAI writes,
- schedulers of node pools (shards): only the default one runs, which does not see objects of others.

One thing is narrower than in KAI: pods of another ``schedulerName`` are left alone even if annotated.
"""
