"""No package of the lock has a licence that asks more of its users than MPL does."""

import re
from importlib import metadata
from pathlib import Path

from packaging.requirements import Requirement

LOCK = Path(__file__).resolve().parents[2] / "requirements.lock"
PERMITTED = re.compile(
    r"0BSD|(Apache|BSD|New BSD|ISC|MIT)\b.*|MPL-2\.0|Mozilla Public License 2\.0.*|PSF-2\.0|Unlicense"
)
READ = {"mergedeep": "MIT", "python-dateutil": "Apache-2.0 OR BSD-3-Clause"}
"""Read in the texts that these packages bring, because their metadata names no licence."""
STRONGER = {  # a library that anybody may replace; Django has no other driver of PostgreSQL with pools
    "psycopg": "LGPL-3.0-only",
    "psycopg-binary": "LGPL-3.0-only",
}


def locked():
    """The names of the packages that the lock installs here."""
    requirements = map(Requirement, re.findall(r"^(\S+==[^\\\n]*)", LOCK.read_text(), re.MULTILINE))
    return [each.name for each in requirements if each.marker is None or each.marker.evaluate()]


def licence_of(name):
    """As the package names it: an expression, a short text, or the classifiers."""
    fields = metadata.metadata(name).json
    text = fields.get("license_expression") or fields.get("license") or ""
    classifiers = [line for line in fields.get("classifier", ()) if line.startswith("License ::")]
    named = text if 0 < len(text) < 60 else " AND ".join(line.rpartition(" :: ")[2] for line in classifiers)
    return READ.get(name, named)


def stronger(licences):
    return {
        name: licence
        for name, licence in licences.items()
        if not all(PERMITTED.fullmatch(part) for part in re.split(r" (?:AND|OR) ", licence))
    }


def test_no_licence_is_stronger_than_mpl_but_that_of_the_database_driver():
    assert stronger({name: licence_of(name) for name in locked()}) == STRONGER


def test_a_stronger_licence_is_named_and_so_is_one_that_nobody_can_read():
    licences = {"a": "GPL-3.0-only", "b": "MIT AND AGPL-3.0-or-later", "c": "", "d": "UNKNOWN", "e": "MIT"}
    assert stronger(licences).keys() == {"a", "b", "c", "d"}
