"""The command ``osmo-topology``: pools, topology, and the life of workflows from a terminal.

It is a thin client of the REST interface. It imports nothing of the service (an import contract checks that),
decides nothing that the service decides, and prints the service's own sentences. It uses the login of OSMO's
client: it reads ``login.yaml`` and never writes it.

``service`` speaks HTTP, ``tables`` turns replies into tables, ``show`` prints, ``main`` has the commands.
Results go to standard output, notes and errors to standard error.
"""
