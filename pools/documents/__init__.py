"""Documents: configuration as people write and read it, in REST, in the admin's forms and in the history.

Every door uses the same strict reader. A ConfigRevision keeps a document, a GET returns it (with fields that
are read only), and a PUT takes it. An unknown field is a fault with a suggestion: OSMO silently drops a
mistyped ``topology_key``, and the pool then has no topology. Shapes are OSMO's (``Pool``, ``Platform``,
``Backend``) with the fields that this product adds.
"""
