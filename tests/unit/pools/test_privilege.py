"""Which changes of a pool let its users do more to nodes and Secrets."""

import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

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
    "a way into privileged tasks": (pool({"a": ROOT}), pool({"a": ROOT}, allow_exec=True)),
    "a way to their ports": (pool({"a": ROOT}), pool({"a": ROOT}, allow_port_forward=True)),
    "a way to shared Secrets": (
        pool({"a": PLAIN}, shared_credentials=["hub"]),
        pool({"a": PLAIN}, shared_credentials=["hub"], allow_exec=True),
    ),
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
    "a way into tasks that reach nothing": (pool({"a": PLAIN}), pool({"a": PLAIN}, allow_exec=True)),
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


MOUNTS = st.lists(
    st.sampled_from(["/", "/data", "/data/a:/x", "/data2", "//data/../etc", "/etc/./x"]), max_size=3
)
LABELS = st.dictionaries(st.sampled_from("ab"), st.sampled_from("xy"), max_size=2)
TAINTS = st.lists(st.sampled_from([{"operator": "Exists"}, {"key": "x"}, {"key": "y"}]), max_size=2)
PLATFORMS = st.fixed_dictionaries(
    {
        "privileged_allowed": st.booleans(),
        "host_network_allowed": st.booleans(),
        "allowed_mounts": MOUNTS,
        "default_mounts": MOUNTS,
        "override_pod_template": st.lists(st.sampled_from(["shm", "net"]), max_size=1),
        "node_selector": LABELS,
        "tolerations": TAINTS,
    }
)
POOLS = st.builds(
    pool,
    st.dictionaries(st.sampled_from("pqr"), PLATFORMS, min_size=1, max_size=3),
    node_selector=LABELS,
    tolerations=TAINTS,
)


def directories(platform):
    """The parts of each directory that a platform mounts."""
    for mount in platform["allowed_mounts"] + platform["default_mounts"]:
        parts = []
        for part in mount.partition(":")[0].split("/"):
            if part == "..":
                parts.pop()
            elif part not in ("", "."):
                parts.append(part)
        yield parts


def covers(before, earlier, after, platform):
    """Whether tasks could do on one platform what they can do on another, written out."""
    allowed = list(directories(earlier))
    allows = (
        earlier["privileged_allowed"] >= platform["privileged_allowed"]
        and earlier["host_network_allowed"] >= platform["host_network_allowed"]
        and earlier["override_pod_template"] == platform["override_pod_template"]
        and all(any(path[: len(root)] == root for root in allowed) for path in directories(platform))
    )
    harmless = not any(
        value for field, value in platform.items() if field not in ("node_selector", "tolerations")
    )
    if not allows or harmless:
        return allows
    was, now = (
        {**earlier["node_selector"], **before["node_selector"]},
        {**platform["node_selector"], **after["node_selector"]},
    )
    tolerated = before["tolerations"] + earlier["tolerations"]
    return was.items() <= now.items() and all(
        toleration in tolerated for toleration in after["tolerations"] + platform["tolerations"]
    )


@given(POOLS, POOLS)
def test_every_platform_is_compared_with_every_one_that_was_there(before, after):
    nothing = [] if any(p["override_pod_template"] for p in before["platforms"].values()) else [PLAIN]
    earlier = [*before["platforms"].values(), *nothing]
    want = [
        f"platforms.{name}"
        for name, platform in after["platforms"].items()
        if not any(covers(before, old, after, platform) for old in earlier)
    ]
    assert widened(before, after) == want


def calls(function, *arguments):
    """How many calls a function makes, to Python and to C."""
    events = []
    sys.setprofile(lambda _, event, __: events.append(event))
    try:
        function(*arguments)
    finally:
        sys.setprofile(None)
    return sum(event in ("call", "c_call") for event in events)


@pytest.mark.parametrize("shift", [0, 1000], ids=["the same platforms", "other platforms"])
def test_the_comparison_costs_the_size_of_both_pools_and_not_their_product(shift):
    def of(number, *, first):
        return pool(
            {f"p{i}": {**ROOT, "allowed_mounts": [f"/data/{i}"]} for i in range(first, first + number)}
        )

    small, large = (calls(widened, of(n, first=0), of(n, first=shift)) for n in (50, 200))
    assert large < 6 * small
