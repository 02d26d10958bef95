"""Bringing a task group's objects in line with its row, level-driven.

``run.run`` is one look: observe, plan (``plan``, ``follow``: pure), apply, record. The other modules are its
parts: ``values`` and ``observed`` read rows, ``seen`` reads the cluster, ``leased`` bounds what is sent to
it, ``create`` and ``teardown`` are the two ways of acting, ``orphans`` finds what no row wants.
"""
