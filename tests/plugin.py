"""What every test run needs before Django reads its settings; loaded with ``-p``.

A development installation, and no server but those that the run starts itself: variables that
name others are dropped.

What takes minutes by its nature is marked ``deep``. ``--deep`` runs those tests, and the property tests with
thousands of examples each, and nothing else; without it they are not selected.
"""

import atexit
import gc
import os
import shutil
import tempfile
from collections.abc import Generator, Iterable
from itertools import filterfalse, groupby, islice

import pytest

pytest_plugins = ("localcluster.pytest_plugin", "tests.whole_service", "tests.builders.osmo_client")

os.environ["OSMO_ENV"] = "development"
for name in ("OSMO_DATABASE_URL", "OSMO_REDIS_URL", "CLUSTER_KUBECONFIG", "KUBECONFIG"):
    os.environ.pop(name, None)
kept_logs = tempfile.mkdtemp(prefix="osmo-test-logs-")
atexit.register(shutil.rmtree, kept_logs, ignore_errors=True)
os.environ["OSMO_LOG_STORE"] = f"file://{kept_logs}"
os.environ["OSMO_KUBECONFIG_PATHS"] = '["/"]'  # tests write them into directories of their own
os.environ["OSMO_LOG_FOLLOW_SECONDS"] = "2"  # who follows what never ends is let go of soon
for limit in ("STREAMS", "USER_STREAMS", "FOLLOWERS", "USER_FOLLOWERS"):
    os.environ[f"OSMO_LOG_{limit}"] = "1000"  # tests may leave some unread


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--deep", action="store_true", help="run what takes minutes by its nature, alone")


@pytest.hookimpl(wrapper=True)  # so that it comes before pytest-django's, which loads what is named here
def pytest_load_initial_conftests(early_config: pytest.Config) -> Generator[None]:
    """Let a process load the service, with the fixtures that use it, unless it only deals tests to others."""
    options = early_config.known_args_namespace
    undivided = options.collectonly or options.usepdb or "PYTEST_XDIST_WORKER" in os.environ
    if getattr(options, "numprocesses", None) and not undivided:
        options.noconftest = True
    else:
        os.environ["DJANGO_SETTINGS_MODULE"] = "osmo_topology.settings"
    return (yield)


@pytest.hookimpl(trylast=True)  # Hypothesis marks its tests at the end of the collection
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    deep = config.getoption("deep")
    others = [item for item in items if not _belongs(item, deep=deep)]
    config.hook.pytest_deselected(items=others)
    input_of_worker = getattr(config, "workerinput", {"workercount": 1})
    items[:] = _dealt((item for item in items if _belongs(item, deep=deep)), input_of_worker["workercount"])


def _belongs(item: pytest.Item, *, deep: bool) -> bool:
    if not deep:
        return item.get_closest_marker("deep") is None
    return any(item.get_closest_marker(name) for name in ("deep", "hypothesis"))


def _dealt(items: Iterable[pytest.Item], workers: int) -> list[pytest.Item]:
    """Give two thirds of the workers what waits for the service, to begin with; the others compute meanwhile.

    Each worker begins with a part of the list, all as long. The longest come first, and the tests
    of a file stay together, since they share what is set up for them.
    """
    tests = sorted(items, key=lambda item: (-_limit(item), not _waits(item)))
    files = [
        list(group) for _, group in groupby(filter(_waits, tests), lambda item: (_limit(item), item.path))
    ]
    rest = filterfalse(_waits, tests)
    size = -(-len(tests) // workers)
    hands = max(1, 2 * workers // 3)
    dealt = []
    for hand in range(hands):
        own = [item for file in files[hand::hands] for item in file]
        dealt += [*own, *islice(rest, max(0, size - len(own)))]
    return [*dealt, *rest]


def _waits(item: pytest.Item) -> bool:
    return _limit(item) > 0 or "running_service" in getattr(item, "fixturenames", ())


def _limit(item: pytest.Item) -> float:
    """The longest that a test may take, where it says so."""
    marker = item.get_closest_marker("timeout")
    return float(marker.args[0]) if marker else 0.0


def pytest_collection_finish() -> None:
    """Take the collected tests out of the garbage collector's rounds: a seventh of a worker's CPU time."""
    gc.collect()
    gc.freeze()
