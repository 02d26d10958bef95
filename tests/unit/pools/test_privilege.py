"""Which changes of a pool let its users do more to nodes and Secrets."""

import pytest

from pools.checks.privilege import widened

PLAIN = {
    "privileged_allowed": False, "host_network_allowed": False, "allowed_mounts": [], "default_mounts": [],
    "override_pod_template": [], "node_selector": {}, "tolerations": [],
}  # fmt: skip
ROOT = {**PLAIN, "privileged_allowed": True, "allowed_mounts": ["/data"], "node_selector": {"gpu": "a"}}
SHM = {**PLAIN, "override_pod_template": ["shm"]}


def pool(platforms, **more):
    return {
        "shared_credentials": [], "common_pod_template": [], "node_selector": {}, "tolerations": [],
        "platforms": platforms,
    } | more  # fmt: skip


WIDENS = {
    "privileged": (pool({"a": PLAIN}), pool({"a": {**PLAIN, "privileged_allowed": True}})),
    "the node's network": (pool({"a": PLAIN}), pool({"a": {**PLAIN, "host_network_allowed": True}})),
    "a directory": (pool({"a": PLAIN}), pool({"a": {**PLAIN, "allowed_mounts": ["/"]}})),
    "a default mount": (pool({"a": PLAIN}), pool({"a": {**PLAIN, "default_mounts": ["/etc:/x"]}})),
    "a directory above": (pool({"a": ROOT}), pool({"a": {**ROOT, "allowed_mounts": ["/"]}})),
    "a directory that begins alike": (pool({"a": ROOT}), pool({"a": {**ROOT, "allowed_mounts": ["/data2"]}})),
    "a way up": (pool({"a": ROOT}), pool({"a": {**ROOT, "allowed_mounts": ["/data/../etc"]}})),
    "other nodes": (pool({"a": ROOT}), pool({"a": {**ROOT, "node_selector": {}}})),
    "a tolerated taint": (pool({"a": ROOT}), pool({"a": {**ROOT, "tolerations": [{"operator": "Exists"}]}})),
    "a taint that the pool tolerates": (pool({"a": ROOT}), pool({"a": ROOT}, tolerations=[{"key": "x"}])),
    "another privileged platform": (pool({"a": ROOT}), pool({"a": ROOT, "b": {**ROOT, "node_selector": {}}})),
    "the first platform": (pool({}), pool({"a": ROOT})),
    "a template of the platform": (pool({"a": PLAIN}), pool({"a": SHM})),
    "a template fewer, which may hold back": (pool({"a": SHM}), pool({"a": PLAIN})),
    "a platform beside the template": (pool({"a": SHM}), pool({"a": SHM, "b": PLAIN})),
    "a template of the pool": (pool({"a": PLAIN}), pool({"a": PLAIN}, common_pod_template=["shm"])),
    "no platform, and so no template of one": (pool({"a": SHM}), pool({})),
    "other nodes under the pool's template": (
        pool({}, common_pod_template=["shm"], node_selector={"pool": "a"}),
        pool({}, common_pod_template=["shm"]),
    ),
    "a platform on other nodes under the pool's template": (
        pool({"a": {**PLAIN, "node_selector": {"gpu": "a"}}}, common_pod_template=["shm"]),
        pool({"a": PLAIN}, common_pod_template=["shm"]),
    ),
    "a taint tolerated under the pool's template": (
        pool({}, common_pod_template=["shm"]),
        pool({}, common_pod_template=["shm"], tolerations=[{"key": "x"}]),
    ),
    "another order": (pool({}, common_pod_template=["a", "b"]), pool({}, common_pod_template=["b", "a"])),
    "a shared Secret": (pool({}), pool({}, shared_credentials=["hub"])),
}
LEAVES = {
    "nothing": (pool({"a": ROOT, "b": SHM}), pool({"a": ROOT, "b": SHM})),
    "less privilege": (pool({"a": ROOT}), pool({"a": PLAIN})),
    "a directory below": (pool({"a": ROOT}), pool({"a": {**ROOT, "allowed_mounts": ["/data/team:/mnt"]}})),
    "fewer nodes": (pool({"a": ROOT}), pool({"a": {**ROOT, "node_selector": {"gpu": "a", "zone": "b"}}})),
    "fewer nodes by the pool": (pool({"a": ROOT}), pool({"a": ROOT}, node_selector={"zone": "b"})),
    "another name": (pool({"a": ROOT}), pool({"z": ROOT})),
    "a plain platform": (pool({"a": ROOT}), pool({"a": ROOT, "b": {**PLAIN, "node_selector": {"gpu": "c"}}})),
    "fewer nodes under the pool's template": (
        pool({"a": PLAIN}, common_pod_template=["shm"]),
        pool({"b": {**PLAIN, "node_selector": {"gpu": "a"}}}, common_pod_template=["shm"]),
    ),
    "a platform where there was none, under the pool's template": (
        pool({}, common_pod_template=["shm"]),
        pool({"a": PLAIN}, common_pod_template=["shm"]),
    ),
    "no platform": (pool({"a": ROOT}), pool({})),
    "a Secret fewer": (pool({}, shared_credentials=["a", "b"]), pool({}, shared_credentials=["b"])),
}


@pytest.mark.parametrize("case", WIDENS)
def test_it_widens(case):
    assert widened(*WIDENS[case])


@pytest.mark.parametrize("case", LEAVES)
def test_it_widens_nothing(case):
    assert not widened(*LEAVES[case])
