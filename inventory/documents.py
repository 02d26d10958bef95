"""The bill of materials and the list of licences, the same bytes for the same release."""

import json
from collections.abc import Sequence
from typing import Any

from inventory.packages import COMMAND, Package
from web.release import VERSION

NAME = "osmo-topology"
LICENCE = "Apache-2.0"


def bill_of_materials(packages: Sequence[Package], *, product: str = NAME) -> str:
    """CycloneDX 1.6 as JSON. It has no date and no serial number, so that two runs can be compared."""
    release = _component(
        Package(name=product, version=VERSION, licence=LICENCE, needs=()), kind="application"
    )
    graph: list[dict[str, Any]] = [
        {"ref": release["bom-ref"], "dependsOn": [_reference(package) for package in packages]}
    ]
    references = {package.name: _reference(package) for package in packages}
    graph += [
        {"ref": references[package.name], "dependsOn": [references[name] for name in package.needs]}
        for package in packages
    ]
    document = {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {"component": release},
        "components": [_component(package, kind="library") for package in packages],
        "dependencies": graph,
    }
    return json.dumps(document, indent=2) + "\n"


def licence_list(packages: Sequence[Package], *, product: str = f"the image {NAME}:{VERSION}") -> str:
    """A table for people."""
    rows = [f"| {package.name} | {package.version} | {package.licence} |" for package in packages]
    title = f"# Packages of {product}"
    head = [title, "", "| package | version | licence |", "|---|---|---|"]
    return "\n".join([*head, *rows, ""])


def _reference(package: Package) -> str:
    """The package's address by the purl standard; our own products are in no index."""
    kind = "generic" if package.name in {NAME, COMMAND} else "pypi"
    return f"pkg:{kind}/{package.name}@{package.version}"


def _component(package: Package, *, kind: str) -> dict[str, Any]:
    compound = " " in package.licence
    licence = {"expression": package.licence} if compound else {"license": {"id": package.licence}}
    return {
        "type": kind,
        "bom-ref": _reference(package),
        "name": package.name,
        "version": package.version,
        "purl": _reference(package),
        "licenses": [licence],
    }
