import re
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduling import names
from tests.unit.scheduling.build import GROUP, INSTALLATION

TASK = UUID("abcdefab-0000-0000-0000-00000000000a")
DNS_LABEL = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")

ALL = {
    "pod group": names.pod_group(GROUP),
    "uneditable pod group": names.uneditable_pod_group(GROUP, generation=10**6),
    "compute domain": names.compute_domain(GROUP),
    "claim template": names.claim_template(GROUP),
    "service": names.headless_service(GROUP),
    "secret": names.secret(GROUP, "credentials"),
    "pod": names.pod(TASK, retry=9999),
    "host": names.hostname(TASK),
    "topology": names.topology(INSTALLATION, ["a" * 316] * 16),
    "priority": names.priority_class("HIGH"),
    "queue": names.queue("osmo", "p"),
    "longest queue": names.queue("n" * 63, "p" * 63),
    "longest parent queue": names.parent_queue("n" * 63),
    "subgroup": names.subgroup(0, 100_000, (("rack", "r"),), kind="free"),
}


@pytest.mark.parametrize("what", ALL)
def test_names_fit_everywhere_kubernetes_may_put_them(what):
    assert DNS_LABEL.fullmatch(ALL[what])


def test_a_pod_group_has_its_task_groups_uuid():
    assert names.pod_group(GROUP) == "11111111222233334444555555555555"


def test_each_retry_has_its_own_pod_and_the_same_host():
    assert names.pod(TASK, retry=0) != names.pod(TASK, retry=1)
    assert names.hostname(TASK) == TASK.hex


def test_each_generation_has_an_uneditable_pod_group_of_its_own():
    assert len({names.uneditable_pod_group(GROUP, generation=number) for number in (0, 1, 11)}) == 3


def test_topologies_are_named_by_content_and_installation():
    zone, both = names.topology(INSTALLATION, ["zone"]), names.topology(INSTALLATION, ["zone", "rack"])
    assert zone == names.topology(INSTALLATION, ["zone"])
    assert (
        len({zone, both, names.topology(GROUP, ["zone"]), names.topology(INSTALLATION, ["rack", "zone"])})
        == 4
    )


def test_a_plain_pools_queue_is_named_as_osmo_names_it():
    assert names.queue("osmo", "h100-east") == "osmo-topology-pool-osmo-h100-east"
    assert names.parent_queue("osmo") == "osmo-topology-default-osmo"


ALIKE = {
    "capitals": [("osmo", "H100"), ("osmo", "h100")],
    "dots and underscores": [("osmo", "a.b"), ("osmo", "a_b"), ("osmo", "a-b")],
    "hyphens between namespace and pool": [("a", "b-c"), ("a-b", "c")],
    "a pool that looks hashed": [
        ("a", names.queue("a", "B").removeprefix("osmo-topology-pool-a-")),
        ("a", "B"),
    ],
    "long names": [("osmo", "p" * 62 + "a"), ("osmo", "p" * 62 + "b")],
}


@pytest.mark.parametrize("phrase", ALIKE)
def test_pools_alike_have_different_queues(phrase):
    made = [names.queue(namespace, pool) for namespace, pool in ALIKE[phrase]]
    assert len(set(made)) == len(made)
    assert all(DNS_LABEL.fullmatch(name) for name in made)


POOL = st.from_regex(r"[a-zA-Z]([a-zA-Z0-9_.-]{0,61}[a-zA-Z0-9])?", fullmatch=True)
NAMESPACE = st.from_regex(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?", fullmatch=True)


@given(NAMESPACE, POOL, NAMESPACE, POOL)
def test_queues_of_different_pools_never_meet(namespace, pool, other_namespace, other_pool):
    first, second = names.queue(namespace, pool), names.queue(other_namespace, other_pool)
    assert DNS_LABEL.fullmatch(first)
    assert (first == second) == ((namespace, pool) == (other_namespace, other_pool))


def test_subgroups_of_paths_that_collide_when_joined_differ():
    first = names.subgroup(0, 2, (("zone", "a"), ("rack", "b-c")))
    second = names.subgroup(0, 2, (("zone", "a-b"), ("rack", "c")))
    assert first != second


def test_the_place_is_padded_to_the_number_of_siblings():
    assert names.subgroup(7, 8, ()).startswith("07-")
    assert names.subgroup(7, 1001, ()).startswith("0007-")
