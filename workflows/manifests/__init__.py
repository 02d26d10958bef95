"""The objects of a task group in its cluster, rendered from frozen values alone.

A dry run and a worker call the same functions, so a dry run displays exactly the objects that are created.
The result depends neither on the clock, nor on chance, nor on the cluster: rendering twice gives the same
objects. So a repeated create meets its own object, and a retried pod gets the parts of the pod it replaces.
"""
