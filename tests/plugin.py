"""What every test run needs before Django reads its settings; loaded with ``-p``.

A development installation, and no server but those that the run starts itself: variables that
name others are dropped.
"""

import atexit
import gc
import os
import shutil
import tempfile

pytest_plugins = ("localcluster.pytest_plugin",)

os.environ["OSMO_ENV"] = "development"
for name in ("OSMO_DATABASE_URL", "OSMO_REDIS_URL", "CLUSTER_KUBECONFIG", "KUBECONFIG"):
    os.environ.pop(name, None)
kept_logs = tempfile.mkdtemp(prefix="osmo-test-logs-")
atexit.register(shutil.rmtree, kept_logs, ignore_errors=True)
os.environ["OSMO_LOG_STORE"] = f"file://{kept_logs}"
os.environ["OSMO_LOG_FOLLOW_SECONDS"] = "2"  # who follows what never ends is let go of soon
for limit in ("STREAMS", "USER_STREAMS", "FOLLOWERS", "USER_FOLLOWERS"):
    os.environ[f"OSMO_LOG_{limit}"] = "1000"  # tests may leave some unread


def pytest_collection_finish() -> None:
    """Take the collected tests out of the garbage collector's rounds: a seventh of a worker's CPU time."""
    gc.collect()
    gc.freeze()
