"""The command ``osmo-topology``: pools, topology, and the life of workflows from a terminal.

A thin client of the REST interface. It imports nothing of the service (an import contract says so), decides
nothing that the service decides, and prints what the service says in the service's own words. Those who use
OSMO's own client are logged in here too: its ``login.yaml`` is read, and never written.

``service`` speaks HTTP, ``tables`` turns replies into tables without printing, ``show`` prints, ``main`` is
the commands. What a person reads goes to standard output, what they are told besides to standard error.
"""
