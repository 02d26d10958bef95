"""Reconciling a task group's objects with its row, level-driven.

``run.run`` is one reconciliation: observe, plan (``plan``, ``follow``: pure), apply, record. It takes the
steps of its tuples in their order, and ``turn`` says what a step is. The other modules are the steps and
their parts: ``group_view`` and ``observations`` read rows, ``group_reader`` reads the cluster,
``leased`` bounds each call by the lease, ``create``, ``recreate``, ``edit`` and ``teardown`` act,
``waiting`` explains, ``placement_result`` judges a placing, ``orphans`` finds objects that no row desires.
"""
