"""Configuration as people write and read it: the shapes of REST, of the admin's forms and of history.

One strict reader for every door. A document is what a ConfigRevision keeps, what a GET returns (plus
fields that are read only) and what a PUT takes; a field nobody knows is a fault with a suggestion, because
OSMO drops a mistyped ``topology_key`` in silence and the pool then has no topology. Shapes are OSMO's
(``Pool``, ``Platform``, ``Backend``), with the fields this product adds.
"""
