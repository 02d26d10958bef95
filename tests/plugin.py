"""What every test run needs before Django reads its settings; loaded with ``-p``.

A development installation, and no server but those that the run starts itself: variables that
name others are dropped.
"""

import os

pytest_plugins = ("localcluster.pytest_plugin",)

os.environ["OSMO_ENV"] = "development"
for name in ("OSMO_DATABASE_URL", "OSMO_REDIS_URL", "CLUSTER_KUBECONFIG", "KUBECONFIG"):
    os.environ.pop(name, None)
