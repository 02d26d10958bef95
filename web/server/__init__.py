"""How web's processes speak HTTP: an event loop holds the connections, a few threads run Django.

A thread that reads from a client belongs to that client: sixteen half-sent requests stop sixteen threads. So
the loop reads each request to its end, within limits of time, number and memory (``protocol``, ``budget``),
and only then does a thread run Django on it (``application``, ``threads``). The loop writes the answer too:
nobody who reads slowly holds a thread. Beyond the limits the client that has kept the process waiting longest
is cut, which is never one that just sends its request.

Django runs as the WSGI application that it is, in threads that live as long as the process: each keeps its
database connection. Rejected: Django's own ASGI handler. It runs every request in a thread of its own, 100 at
a time under load, each with a connection; and it joins repeated headers before anybody can look at them.
"""
