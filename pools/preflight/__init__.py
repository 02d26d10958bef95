"""Checks of an installation and of each backend's cluster, before work depends on them.

``facts`` are the values that the checks read, ``cluster`` and ``servers`` read them, ``checks`` are pure
rules in one table, ``report`` prints. Nothing is written, in no cluster and no row. A fact that cannot be
read makes a check unknown and fails nothing. Knowledge of a scheduler's own installation stands with its
scheduler backend (``InstallationCheck``).
"""
