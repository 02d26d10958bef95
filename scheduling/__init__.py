"""The pure core: from requirements to the objects of a scheduler.

Standard library only, frozen values, no I/O. Order everywhere: broadest level first.
"""
