"""Documentation that cannot rot: what the code has, the pages have."""

import re
from pathlib import Path

from osmo_topology.env import Environment

DOCS = Path(__file__).resolve().parents[2] / "docs"


def test_every_setting_is_documented_and_no_other():
    documented = set(re.findall(r"^\| `(OSMO_[A-Z_]+)`", (DOCS / "settings.md").read_text(), re.MULTILINE))
    assert documented == {f"OSMO_{name.upper()}" for name in Environment.model_fields}
