"""How hard property tests look: quick, and the same in every run, by default; deep where OSMO_DEEP is set."""

import os

from hypothesis import HealthCheck, settings

settings.register_profile(
    "quick",
    max_examples=60,
    deadline=None,
    database=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.register_profile("deep", parent=settings.get_profile("quick"), max_examples=3000, derandomize=False)
settings.load_profile("deep" if os.environ.get("OSMO_DEEP") else "quick")
