"""A stand-in for KAI's scheduler and binder, v0.13 or v0.17.

The core is one pure function, ``cycle.schedule``: a ``Snapshot`` in, ``Decisions`` out. Around it stand
``mirror`` (list and watch), ``reader`` (objects to values), ``writer`` (decisions to requests) and
``loop``. Quoted titles are sections of docs/explanation/kai-behaviour.md.

Left out on purpose, because nothing here relies on it:

- BindRequest objects (the binding is made directly, through ``pods/binding``),
- reclaim between queues, consolidation, elastic preemption of single pods, ``minSubGroup``,
  ``schedulingBackoff``, fair shares over time, GPU fractions and MIG, pod affinity, host ports and volumes,
- ``status.resourcesStatus`` of pod groups and the status of queues, which KAI's other controllers write,
- schedulers and node pools beyond the one called ``default``.

One thing is narrower than in KAI: pods of another ``schedulerName`` are left alone even if annotated.
"""
