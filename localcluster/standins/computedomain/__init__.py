"""A stand-in for NVIDIA's ComputeDomain controller and for what its kubelet plugins publish.

One pure function, ``plan.plan``, compares what is there with what should be and returns the next actions;
``controller`` runs it on every change. The original's behaviour was read in its driver's sources (v0.5 line)
and seen on the running controller. Played here:

- for each ComputeDomain the finalizer, the workload's claim template under the requested name, and in the
  driver's namespace a template and a DaemonSet for its daemons;
- ``status``: Ready at once with ``numNodes: 0``, whatever became of the template; nodes are those where a
  claim of the domain is in use;
- deletion in the original's order, which waits for no pod: a domain goes away under running tasks;
- one ResourceSlice per NVLink node, with the one channel that a node has;
- the node label that says which domain a node serves, kept as long as a claim of it is in use there,
- what the kubelet does with claims (``kubelet``): a pod stays in ContainerCreating until the daemon of its
  node is ready, and while the node still carries the label of another domain,
- marks on objects (``values``): daemons that are not ready or gone, a template that comes back late,
- switches of the process: the original's slow pace, no DNS names, faults.

Not played: daemon pods (no DaemonSet controller runs here), ComputeDomainCliques, metrics, the period of two
seconds in which the status follows, the retries of 45 s in which the kubelet asks again.
"""
