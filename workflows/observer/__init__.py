"""Following clusters: one process that lists, watches and writes its observations.

``streams`` has a thread for each kind and namespace, which keeps a fingerprint of what it last passed on and
passes on only what differs. ``inbox`` collects changes for a moment, keeps the newest of each object and
makes streams wait when the database falls behind. ``writer`` writes a batch into the rows in one
transaction and notifies the task groups it concerns, each once. ``process`` decides what to follow.

Nothing here decides anything about a group, and its memory may be lost: a restart lists again.
"""
