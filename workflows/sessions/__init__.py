"""Sessions in running tasks: a caller's socket joined to a session in a task's pod.

A POST decides (``targets``) and gives a key (``tickets``); the caller's socket uses the key once, perhaps in
another web process. There a coroutine (``exec``, ``forward``) carries bytes both ways, as one of this
process's sessions (``open_sessions``): counted, recorded in the workflow's timeline (``audit``), and ended
when its user may no longer, when it idles, or when an end of it is slow or dead. Nothing here holds a thread.
"""
