"""Counters of the identity provider."""

from prometheus_client import Counter

FETCHES = Counter(
    "osmo_identity_provider_fetches_total",
    "Fetches of what the identity provider publishes: ok, failed.",
    ("result",),
)
