"""A stand-in for KAI's scheduler and binder, in each version of ``versions``.

The core is one pure function, ``cycle.schedule``: a ``Snapshot`` in, ``Decisions`` out. Around it stand
``mirror`` (list and watch), ``reader`` (objects to values), ``writer`` (decisions to requests) and
``loop``. Quoted titles are sections of docs/explanation/kai-behaviour.md.

It is frozen to what was seen on the original: new behaviour needs an observation of KAI itself. Some
behaviour here was not seen there: reclaim for a queue's guarantee, limits and quotas of queues, their status,
and pods that are stuck in their end. It serves tests of the service and proves nothing about KAI.

Not played, so nothing may be concluded from its absence here:

- fair shares of queues, reclaim above a guarantee, use over time, queue order by share of a guarantee,
- consolidation of a part of a running gang: here whole groups are moved, and the search ends after 24 trials,
- preemption task by task (v0.13) and for a part of a running gang; here whole groups are evicted,
- ``minSubGroup``, topology alias, NUMA, ``schedulingBackoff``, ``preemptionDelay``, minimum run times,
- volumes that exist but are not bound or bound elsewhere, preferred terms of affinity,
- BindRequest objects and the back-off between failed bindings (a binding is made directly, through
  ``pods/binding``; its failure stands in the pod),
- GPU fractions and MIG, host ports, affinity to other pods, the largest node of a pool,
- ``status.resourcesStatus`` of pod groups, which another controller of KAI writes,
- schedulers of node pools (shards): the default one alone runs, and it sees all nodes and groups.

One thing is narrower than in KAI: pods of another ``schedulerName`` are left alone even if annotated.
"""
