"""Pod templates: parts of a pod that administrators lay over the pods of a pool. Pure, except for ``models``.

``merge`` lays one template over another, ``variables`` fills in values of a task, ``rules`` says what a
template may contain, ``applied`` combines the templates that a pool and its platforms name.
"""
