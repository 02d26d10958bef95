"""A kind that releases serve in different versions, and the one that a cluster has."""

import pytest

from cluster import versions
from cluster.connection import Access
from cluster.kinds import Kind

KIND = Kind("PodGroup", "scheduling.k8s.io", "v1alpha2", "podgroups", other_versions=("v1beta1",))
ACCESS = Access("/etc/versions")


class Server:
    """What a server answers to discovery, and how often it was asked."""

    def __init__(self, **plurals):
        self.plurals = plurals
        self.requests = 0

    def discover(self, group, version):
        self.requests += 1
        served = self.plurals.get(version)
        return None if group != KIND.group or served is None else frozenset(served)


@pytest.fixture(autouse=True)
def nothing_remembered(monkeypatch):
    monkeypatch.setattr(versions, "_served", {})


SERVED = {
    "the older release": ({"v1alpha2": ["podgroups"]}, "v1alpha2"),
    "the newer release": ({"v1beta1": ["podgroups", "workloads"]}, "v1beta1"),
    "both": ({"v1alpha2": ["podgroups"], "v1beta1": ["podgroups"]}, "v1alpha2"),
    "a version without the kind": ({"v1alpha2": ["workloads"], "v1beta1": ["podgroups"]}, "v1beta1"),
    "none: the request itself is then refused": ({"v1": ["priorityclasses"]}, "v1alpha2"),
}


@pytest.mark.parametrize("case", SERVED)
def test_the_version_that_is_served_is_taken(case):
    plurals, want = SERVED[case]
    kind = versions.served(ACCESS, KIND, Server(**plurals).discover)
    assert (kind.version, kind.plural) == (want, "podgroups")


def test_an_answer_is_remembered_for_a_while_and_a_missing_one_is_not(monkeypatch):
    server = Server(v1beta1=["podgroups"])
    assert [versions.served(ACCESS, KIND, server.discover).version for _ in range(3)] == ["v1beta1"] * 3
    assert server.requests == 2
    now = versions.boot_seconds()
    monkeypatch.setattr(versions, "boot_seconds", lambda: now + versions.SECONDS + 1)
    server.plurals = {"v1alpha2": ["podgroups"]}
    assert versions.served(ACCESS, KIND, server.discover).version == "v1alpha2"

    absent = Server()
    other = Access("/etc/none")
    for _ in range(2):
        assert versions.served(other, KIND, absent.discover) == KIND
    assert absent.requests == 4
