"""Kubernetes I/O: the only package that imports ``kubernetes``.

``gateway`` sends single requests, ``bulk`` thousands of writes, and ``watch`` follows changes; ``kinds`` are
the kinds they work on and ``errors`` the errors they raise.

Objects are plain dictionaries in the shape of the API server. Rejected: the client's models, which refuse
every field newer than themselves when they read, and silently drop it when they write.
"""
