"""Pod templates: parts of a pod that administrators lay over the pods of a pool. Pure, but for ``models``.

``merge`` lays one over another, ``variables`` fills in what is known of a task, ``rules`` says what a
template may hold, ``applied`` is what a pool and its platforms make of the templates they name.
"""
