"""A kubelet for one node, which runs containers as processes of this machine.

kwok's nodes only look like nodes. The one node that carries ``nodes.KUBELET_LABEL`` is played by this
program: of each pod that the scheduler binds to it, it runs every container's command with its environment,
volumes, service-account token and probes, and writes the status that controllers act on. So a chart can be
installed with its Jobs, and an upgrade rolls as its probes allow.

What stands in for what:

- an image is a directory (``image.py``): the Dockerfile's files, packages of the lock alone, its variables;
- a mount is a directory below a root of the container's own. Paths in variables are moved there, and the one
  path that a library has built in, the service account's, by ``shim/sitecustomize.py``, to which
  ``OSMO_KUBELET_ROOT`` names the root. Nothing of the product knows that variable;
- an address is 10.R.x.y in the cluster and 127.R.x.y on this machine, since an EndpointSlice takes no
  loopback address: ``status.podIP`` and the ``Host`` of probes are the first one, ``$(POD_IP)`` the second.
  ``relay.py`` sends to ready endpoints, as a Service does.

Not shown: containers and their isolation (users, read-only files, cgroups, capabilities), images, network
policies, names (DNS), claims of volumes, tokens that are replaced, and logs through the API server. Back-off
begins with 1 s, not 10 s.

The servers of the chart's quickstart do not run here, though PostgreSQL and Valkey are on this machine:

- their images bring what the chart does not write: PostgreSQL's has an entrypoint that makes data directory,
  user and database of its variables. A stand-in for that would test the stand-in;
- they listen on every address of a pod, and pods of this node share one: two releases would meet;
- their data is on claims, which takes the controllers of StatefulSets and volumes, and a provisioner;
- the service finds them by the names of Services, and libpq resolves those in the C library, which asks
  cluster DNS there and /etc/hosts here: neither a shim of Python nor a variable reaches it.

Tests render their objects, and a real API server takes them (``tests/chart``).

Every process is tied to this one by the kernel (``launch.py``), and leads a session that is killed as a whole
at its end.
"""
