"""The pure core: from requirements to what a scheduler is told.

Standard library only, frozen values, no I/O. Order everywhere: broadest level first.
"""
