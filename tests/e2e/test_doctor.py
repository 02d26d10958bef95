"""An operator asks the running service whether it keeps its promises."""

import json
import secrets
import subprocess
import sys
from pathlib import Path

import pytest

from localcluster.directories import CHECKOUT
from scheduling import names
from tests.e2e.conftest import workflow


@pytest.fixture
def doctor(running_service, world):
    """The findings about what a test made: other tests break things at the same time, on purpose."""

    def ask(*options, mine):
        ended = subprocess.run(
            # the checks would load every page
            [sys.executable, CHECKOUT / "manage.py", "doctor", "--json", "--skip-checks", *options],
            cwd=Path(running_service["processes"]) / "worker",
            env=running_service["environment"],
            capture_output=True,
            text=True,
            timeout=200,
            check=False,
        )
        assert ended.returncode in (0, 1, 2), ended.stderr
        said = json.loads(ended.stdout)
        return [
            finding
            for finding in said["findings"]
            if finding["workflow"] in mine or finding["object"] in mine
        ]

    return ask


def nothing_found(world, look):
    """In the end: rows of pods are the observer's, which may be late on a loaded machine."""
    world.wait(look, lambda findings: findings == [])


def test_nothing_is_found_of_a_gang_that_runs_and_one_that_has_ended(world, doctor):
    pool = world.make_pool(nvlink=True)
    ended, running = (world.submit(pool, workflow(("g", ["a", "b"]))) for _ in range(2))
    for name in (ended, running):
        world.wait_group(name, "g", "RUNNING")
    world.service.cancel(ended)
    world.wait_released(ended)
    nothing_found(world, lambda: doctor("--grace", "5", "--confirm", "1", mine=[ended, running]))
    world.service.cancel(running)
    world.wait_released(running)
    nothing_found(world, lambda: doctor("--grace", "0", mine=[ended, running]))


def test_an_object_that_no_group_wants_is_found_in_the_cluster(world, doctor):
    pool = world.make_pool()
    name = world.submit(pool, workflow(("g", ["a"])))
    world.wait_group(name, "g", "RUNNING")
    (pod,) = world.pods(name)
    mark = pod["metadata"]["labels"][names.INSTALLATION_LABEL]
    labels = {names.INSTALLATION_LABEL: mark, names.GROUP_LABEL: secrets.token_hex(16)}
    stray = {"metadata": {"name": f"{world.prefix}stray", "labels": labels}}
    world.api.create(f"/api/v1/namespaces/{world.namespace}/secrets", stray)
    label = f"Secret {world.namespace}/{world.prefix}stray"
    assert [finding["rule"] for finding in doctor("--grace", "0", mine=[label])] == ["unknown"]
    world.api.delete(f"/api/v1/namespaces/{world.namespace}/secrets/{world.prefix}stray")
    assert doctor("--grace", "0", mine=[label]) == []
