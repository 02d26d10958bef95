"""A stand-in for Kueue: admission with topology-aware placement, preemption, node replacement.

The core is one pure function, ``cycle.schedule``: a ``Snapshot`` in, ``Decisions`` out; ``place`` finds the
nodes of one pod set. Around it stand ``mirror`` (list and watch), ``reader`` (objects to values), ``writer``
(decisions to requests) and ``loop``. No webhook of Kueue and no pod integration is played.

Played because running Kueue does it, and to be reckoned with:

- a second pod set of one ``podSetGroupName`` is a leader: one pod on one node, whatever its count,
- a node without the label of any level is not seen, by unconstrained pods neither,
- a level that the Topology lacks leaves ``Admitted=False (NoReservation)`` and no other word,
- a pod without one of the topology annotations counts beside the workload that it belongs to.

Not played, so nothing may be concluded from its absence here:

- cohorts, borrowing, lending, fair sharing, admission checks, ``waitForPodsReady``,
- minimum counts of pod sets, balanced placement, slices in several layers, DRA claims,
- preferred node affinity of pod templates; the required one counts (Kueue 0.15, its pull request 7899),
- a StrictFIFO queue's wait for borrowed quota; here its head simply blocks those behind it,
- resources of a template beyond the requests (limits where there are none) of its containers,
- replacement of several lost nodes of one workload, which Kueue answers with an eviction, as is done here.
"""
