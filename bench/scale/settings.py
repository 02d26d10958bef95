"""The service's settings, with clusters in memory behind ``pools.clusters.connect``."""

from osmo_topology.settings import *  # noqa: F403
from osmo_topology.settings import INSTALLED_APPS as SERVICE_APPS

INSTALLED_APPS = [*SERVICE_APPS, "bench.scale"]
