"""Kubernetes I/O, and nothing else: the only package that imports ``kubernetes``.

``gateway`` asks and writes, ``bulk`` does so for thousands of objects, ``watch`` follows; ``kinds`` is
what they work on and ``errors`` what they raise. Objects are plain dictionaries in the
shape of the API server. The client's models were rejected: they refuse every field newer than
themselves on the way in, and drop it in silence on the way out.
"""
