"""Objects of the API server are read as Kubernetes and the originals read them."""

import pytest

from localcluster.standins.computedomain import values
from localcluster.standins.kai import reader
from localcluster.standins.kai.values import GPU, Device, QueueLimit
from localcluster.standins.quantities import UNIT, amount

META = {"namespace": "ns", "name": "x", "uid": "u", "creationTimestamp": "2026-01-01T00:00:00Z"}


@pytest.mark.parametrize(
    ("written", "want"),
    [
        ("1", 1000),
        ("1500m", 1500),
        ("0.1", 100),
        ("1Ki", 1_024_000),
        ("2G", 2 * 10**12),
        ("1e3", 10**6),
        ("1n", 1),
    ],
)
def test_quantities_are_kept_in_thousandths_rounded_up(written, want):
    assert amount(written) == want


def test_a_text_that_is_no_quantity_is_named():
    with pytest.raises(ValueError, match="'four' is no Kubernetes quantity"):
        amount("four")


def container(**requests):
    return {"resources": {"requests": requests}}


def pod(spec=None, status=None, **meta):
    return {"metadata": META | meta, "spec": {"containers": [], **(spec or {})}, "status": status or {}}


def test_a_pod_asks_for_its_containers_together_or_for_its_largest_init_container():
    spec = {
        "containers": [container(cpu="1", **{GPU: "4"}), container(cpu="1")],
        "initContainers": [container(cpu="3"), container(cpu="500m") | {"restartPolicy": "Always"}],
        "overhead": {"cpu": "250m"},
    }

    assert reader.pod(pod(spec)).shape.amounts() == {"cpu": 3250, GPU: 4 * UNIT, "pods": UNIT}


STATES = {
    "waiting": ({}, {"phase": "Pending"}, {}, "pending"),
    "gated": ({"schedulingGates": [{"name": "g"}]}, {}, {}, "gated"),
    "bound": ({"nodeName": "n"}, {"phase": "Pending"}, {}, "active"),
    "running": ({"nodeName": "n"}, {"phase": "Running"}, {}, "active"),
    "being deleted": ({"nodeName": "n"}, {"phase": "Running"}, {"deletionTimestamp": "t"}, "releasing"),
    "succeeded": ({"nodeName": "n"}, {"phase": "Succeeded"}, {"deletionTimestamp": "t"}, "succeeded"),
    "failed": ({"nodeName": "n"}, {"phase": "Failed"}, {}, "failed"),
}


@pytest.mark.parametrize("case", STATES)
def test_the_state_of_a_pod(case):
    spec, status, meta, want = STATES[case]
    assert reader.pod(pod(spec, status, **meta)).state == want


def test_the_name_of_a_claim_is_known_once_its_controller_has_made_it():
    spec = {
        "resourceClaims": [
            {"name": "cd", "resourceClaimTemplateName": "t"},
            {"name": "b", "resourceClaimName": "c"},
        ]
    }
    made = {"resourceClaimStatuses": [{"name": "cd", "resourceClaimName": "x-cd-1"}]}

    assert [each.claim for each in reader.pod(pod(spec)).claims] == [None, "c"]
    assert [each.claim for each in reader.pod(pod(spec, made)).claims] == ["x-cd-1", "c"]


def test_queues_are_written_in_gpus_millicores_and_megabytes():
    resources = {
        "gpu": {"quota": 8, "limit": -1},
        "cpu": {"quota": 1500, "limit": 2000},
        "memory": {"quota": 1000},
    }
    queue = reader.queue({"metadata": {"name": "q"}, "spec": {"resources": resources}})

    assert queue.gpu == QueueLimit(quota=8 * UNIT, limit=-1)
    assert queue.cpu == QueueLimit(quota=amount("1500m"), limit=amount("2"))
    assert queue.memory == QueueLimit(quota=amount("1G"), limit=0)


@pytest.mark.parametrize(
    ("written", "want"), [("60s", 60), ("1m30s", 90), ("-1s", -1), ("", None), ("abc", None)]
)
def test_grace_periods_are_go_durations(written, want):
    assert reader.seconds(written) == want


def test_only_the_newest_generation_of_a_pool_counts():
    old, new = Device("d", "n1", "old", "n1"), Device("d", "n1", "new", "n1")

    assert reader.newest([("d", "n1", 1, (old,)), ("d", "n1", 2, (new,))]) == (new,)


def test_a_request_with_alternatives_matches_no_class():
    spec = {"devices": {"requests": [{"name": "r", "firstAvailable": []}]}}
    (request,) = reader.claim({"metadata": META, "spec": spec}).requests

    assert request.device_class == ""


NVLINK = {
    "a clique label": ({}, {"nvidia.com/gpu.clique": "c.1"}, True),
    "nothing": ({}, {}, False),
    "the mark alone": ({"sim.osmo.local/compute-domain": "true"}, {}, True),
    "the mark against the label": (
        {"sim.osmo.local/compute-domain": "false"},
        {"nvidia.com/gpu.clique": "c"},
        False,
    ),
}


@pytest.mark.parametrize("case", NVLINK)
def test_nvlink_nodes_are_known_by_mark_or_clique(case):
    annotations, labels, want = NVLINK[case]
    body = {"metadata": META | {"annotations": annotations, "labels": labels}}

    assert values.machine(body).nvlink is want


def claim(**status):
    opaque = {"driver": "compute-domain.nvidia.com", "parameters": {"domainID": "cd-uid"}}
    return {"metadata": META, "spec": {"devices": {"config": [{"opaque": opaque}]}}, "status": status}


def test_a_claim_is_in_use_while_it_is_allocated_and_reserved():
    result = {
        "driver": "compute-domain.nvidia.com",
        "pool": "n1",
        "device": "channel-0",
        "request": "channel",
    }
    allocation = {"devices": {"results": [result]}}

    used = values.use(claim(allocation=allocation, reservedFor=[{"uid": "p"}]))
    assert (used.domain, used.node, used.claim) == ("cd-uid", "n1", META["name"])
    assert values.use(claim(allocation=allocation)).node is None
    assert values.use(claim()).node is None
