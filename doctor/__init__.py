"""The consistency check: an independent comparison of the rows with the objects in the clusters.

``facts`` are the values both sides are read into, ``clusters`` and ``rows`` read them, ``rules`` compare them
(pure), ``repair`` does the few safe things that the product itself would do, ``report`` prints. The rules
restate the promises and share no decision with what they check: a mistake in ``workflows.reconcile`` or in
``workflows.lifecycle`` must not hide itself.
"""
