"""Lists of configuration that are too long are refused at every door, all of them at once."""

import json

import pytest

from pools.models import ConfigRevision

pytestmark = pytest.mark.django_db

LABELS = {f"l{i}": "x" for i in range(65)}
WORDS = [f"w{i}" for i in range(257)]
TOLERATIONS = [{"key": f"k{i}", "operator": "Exists"} for i in range(65)]
LONG = {
    "pool": {
        "common_default_variables": LABELS,
        "common_pod_template": WORDS,
        "default_exit_actions": LABELS,
        "node_selector": LABELS,
        "platforms": {f"p{i}": {} for i in range(101)},
        "shared_credentials": WORDS,
        "tolerations": TOLERATIONS,
        "topology_keys": [{"key": f"k{i}", "label": f"l{i}"} for i in range(65)],
    },
    "backend": {
        "node_conditions": {"rules": LABELS},
        "queue_settings": {"local_queues": WORDS},
        "start_barrier": {"command": WORDS},
        "tests": WORDS,
    },
}
PLACES = {
    "pool": sorted(LONG["pool"]),
    "backend": ["node_conditions.rules", "queue_settings.local_queues", "start_barrier.command", "tests"],
}
PLATFORM = {
    "allowed_mounts": WORDS,
    "default_mounts": WORDS,
    "default_variables": LABELS,
    "node_selector": LABELS,
    "override_pod_template": WORDS,
    "tolerations": TOLERATIONS,
}


def by_put(admin, kind, content):
    return admin.put(f"/api/configs/{kind}/kai", {"configs": content}, format="json")


def by_patch(admin, kind, content):
    if kind == "backend":
        return admin.post("/api/configs/backend/kai", {"configs": content}, format="json")
    return admin.patch("/api/configs/pool/kai", {"configs_dict": content}, format="json")


def by_file(admin, kind, content):
    return admin.put("/api/configs/file", {"file": json.dumps({f"{kind}s": {"kai": content}})}, format="json")


def by_rollback(admin, kind, content):
    row = ConfigRevision.objects.filter(config_type=kind.upper(), name="kai").latest("revision")
    ConfigRevision.objects.filter(pk=row.pk).update(content=row.content | content)
    body = {"config_type": row.config_type, "revision": row.revision}
    return admin.post("/api/configs/history/rollback", body, format="json")


@pytest.mark.parametrize("door", [by_put, by_patch, by_file, by_rollback])
@pytest.mark.parametrize("kind", LONG)
def test_long_lists_are_refused(kind, door, admin, put, kai):
    assert put("pool/kai", {"backend": "kai"})[0] == 200
    content = LONG[kind] | ({"backend": "kai"} if kind == "pool" else {"kubeconfig": "/etc/kai"})
    assert_refused(door(admin, kind, content), PLACES[kind])


@pytest.mark.parametrize("door", [by_put, by_patch, by_file, by_rollback])
def test_long_lists_of_a_platform_are_refused(door, admin, put, kai):
    assert put("pool/kai", {"backend": "kai"})[0] == 200
    content = {"backend": "kai", "platforms": {"p": PLATFORM}}
    assert_refused(door(admin, "pool", content), [f"platforms.p.{field}" for field in PLATFORM])


def assert_refused(answer, places):
    assert answer.status_code == 400, answer.json()
    faults = answer.json()["details"]
    for place in places:
        (fault,) = (fault for fault in faults if fault["path"].endswith(place))
        assert fault["code"] == "too_long", fault
    assert len(faults) == len(places)
