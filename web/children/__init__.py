"""Work on what users send, in processes that may be killed: bounded in CPU, memory, time and answer.

A thread cannot be stopped and shares its interpreter's lock and its memory with everybody. So a job runs in a
process of its own, forked for it (``fork_server``) and gone after it: nothing of one user's is left for the
next, and all that it took is given back. A fork takes a few milliseconds, because the server that is forked
has imported what jobs need; it knows no setting, no database and no secret, for its environment is empty.

``process_pool`` is the caller's side. Whatever becomes of a caller, its sockets close with it: the server
kills a job whose caller has gone, and ends when its own caller has.

Rejected: ``concurrent.futures`` (one killed child breaks the pool, and children are used again),
``multiprocessing`` (its children import the main module and inherit the environment), pebble (LGPL), and one
new interpreter for each job, which takes a second to import the grammar.
"""

from web.children.process_pool import Children, Exceeded, JobBounds, children

__all__ = ["Children", "Exceeded", "JobBounds", "children"]
