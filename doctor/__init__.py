"""The independent checker of whether the rows and what is in the clusters agree.

``facts`` are the values both sides are read into, ``compare`` holds one against the other (pure), ``gather``
reads, ``repair`` does the few safe things that the product itself would do, ``report`` shows. It decides by
rules of its own, restated from the promises and not shared with what it checks: a mistake in the planner of
``workflows.reconcile`` or in ``workflows.lifecycle.derive`` must not blind it.
"""
