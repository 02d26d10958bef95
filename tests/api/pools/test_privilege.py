"""A pool's keeper hands out nothing of a backend that is not theirs to hand out, through any door."""

import pytest
from django.contrib.auth.models import User

from pools import services
from pools.models import Pool
from scheduling.errors import InvalidSpec
from tests.api.pools.keepers import keeper_of, write
from tests.error_shape import assert_error_shape
from web.access.rights import read_grants
from web.models import Role

pytestmark = pytest.mark.django_db

PLATFORM = {"gpu": {"description": "eight"}}
ROOT = {"gpu": {"privileged_allowed": True, "allowed_mounts": ["/"], "host_network_allowed": True}}
OPERATOR = services.ConfigChange(username="root", grants=None)


@pytest.fixture
def pools(put, kai):
    """Pool dev on backend "kai", pool other beside it, backend "prod" without a pool."""
    assert put("backend/prod", {"kubeconfig": "/etc/kai"})[0] == 200
    for name in ("dev", "other"):
        status, reply = put(f"pool/{name}", {"backend": "kai", "platforms": PLATFORM})
        assert status == 200, reply


@pytest.fixture
def keeper(pools):
    return keeper_of("pool/dev", "pool/mine")


DOORS = {
    "another backend": ("put", "pool/dev", {"backend": "prod"}),
    "another backend, patched": ("patch", "pool/dev", {"backend": "prod"}),
    "a new pool": ("put", "pool/mine", {"backend": "kai"}),
    "privilege": ("put", "pool/dev", {"backend": "kai", "platforms": ROOT}),
    "privilege, patched": ("patch", "pool/dev", {"platforms": ROOT}),
    "a privileged platform": ("put", "pool/dev/platform/other", ROOT["gpu"]),
    "a Secret": ("patch", "pool/dev", {"shared_credentials": ["hub"]}),
    "all at once": (
        "put", "pool/dev", {"backend": "prod", "platforms": ROOT, "shared_credentials": ["hub"]}
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", DOORS)
def test_a_privilege_of_a_backend_is_not_the_pools_keepers_to_hand_out(case, keeper):
    answer = write(keeper, *DOORS[case])
    assert answer.status_code in {400, 403}, answer.json()
    assert Pool.objects.get(name="dev").backend.name == "kai"
    platforms = Pool.objects.get(name="dev").platforms
    assert not platforms.filter(privileged_allowed=True).exists()
    assert not Pool.objects.filter(name="mine").exists()


@pytest.mark.parametrize("case", DOORS)
def test_a_caller_who_may_write_the_backend_too_hands_it_out(case, pools):
    client = keeper_of("pool/*", "backend/*")
    assert write(client, *DOORS[case]).status_code == 200


@pytest.mark.parametrize("door", ["put", "patch"])
def test_a_hidden_backend_is_answered_like_an_absent_one(door, keeper):
    messages = []
    for backend in ("prod", "nope"):
        content = {"backend": backend}
        reply = assert_error_shape(write(keeper, door, "pool/dev", content), 400, code="unknown_backend")
        assert reply["details"][0]["allowed"] == []
        messages.append(reply["message"].replace(backend, "X"))
    assert messages[0] == messages[1]


def test_a_backend_that_may_be_read_is_suggested_and_not_used(pools):
    client = keeper_of("pool/dev")
    readers = [{"actions": ["config:Read"], "resources": ["backend/prod"]}]
    Role.objects.create(name="reader", policies=readers)
    User.objects.get(username="keeper").role_assignments.create(role="reader")
    answer = write(client, "put", "pool/dev", {"backend": "prdo"})
    assert answer.json()["details"][0]["allowed"] == ["prod"]
    assert_error_shape(write(client, "put", "pool/dev", {"backend": "prod"}), 403)


def test_a_change_that_narrows_or_leaves_privilege_needs_the_pool_alone(keeper):
    services.patch_pool(name="dev", changes={"platforms": ROOT}, change=OPERATOR)
    content = {"backend": "kai", "platforms": ROOT, "description": "new", "enable_maintenance": True}
    assert write(keeper, "put", "pool/dev", content).status_code == 200
    rename = {"new_name": "big"}
    answer = keeper.put("/api/configs/pool/dev/platform/gpu/rename", rename, format="json")
    assert answer.status_code == 200, answer.json()
    narrower, wider = ({"platforms": {"big": {"privileged_allowed": allowed}}} for allowed in (False, True))
    assert write(keeper, "patch", "pool/dev", narrower).status_code == 200
    assert write(keeper, "patch", "pool/dev", wider).status_code == 403


def test_a_rollback_gives_no_privilege_back(keeper):
    services.patch_pool(name="dev", changes={"platforms": ROOT}, change=OPERATOR)
    wide = Pool.objects.get(name="dev").revision
    narrower = {"platforms": {"gpu": {"privileged_allowed": False}}}
    services.patch_pool(name="dev", changes=narrower, change=OPERATOR)
    body = {"config_type": "POOL", "revision": wide}
    assert keeper.post("/api/configs/history/rollback", body, format="json").status_code == 403
    assert not Pool.objects.get(name="dev").platforms.get().privileged_allowed


def test_a_new_name_is_the_backends_keepers_to_give(keeper):
    body = {"new_name": "mine"}
    assert_error_shape(keeper.put("/api/configs/pool/dev/rename", body, format="json"), 403)
    assert Pool.objects.filter(name="dev").exists()


def test_a_template_in_use_is_not_changed_by_its_keeper_alone(put, pools):
    assert put("pod_template/shm", {"spec": {"runtimeClassName": "nvidia"}})[0] == 200
    services.patch_pool(name="dev", changes={"common_pod_template": ["shm"]}, change=OPERATOR)
    client = keeper_of("config/pod_template", "pool/dev")
    root = {"spec": {"runtimeClassName": "other"}}
    assert_error_shape(write(client, "put", "pod_template/shm", root), 403)
    assert write(client, "put", "pod_template/free", root).status_code == 200
    assert_error_shape(write(client, "patch", "pool/dev", {"common_pod_template": ["shm", "free"]}), 403)


def test_an_import_hands_out_no_more_than_its_caller_may(keeper):
    change = services.ConfigChange(username="keeper", grants=read_grants(User.objects.get(username="keeper")))
    text = "pools:\n  dev: {backend: kai, platforms: {gpu: {privileged_allowed: true}}}\n"
    with pytest.raises(InvalidSpec) as refused:
        services.import_configuration(text=text, change=change)
    assert "backend/kai" in str(refused.value.message)
    assert services.import_configuration(text=text, change=OPERATOR).changed
