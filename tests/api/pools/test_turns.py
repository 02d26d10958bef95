"""A large change of configuration takes its author's turn; a small one does not wait."""

from contextlib import ExitStack

import pytest

from pools.models import Platform, PodTemplate, Pool
from tests.api.pools.conftest import POOL
from tests.error_shape import assert_error_shape
from web.limits.turns import MOST_SHORT, RETRY_SECONDS, process_turns, short_turn

pytestmark = pytest.mark.django_db

LONG = "x" * 9_000
LARGE = {**POOL, "description": LONG, "platforms": {"a": {"description": LONG}}}
TEMPLATE = {"metadata": {"annotations": {"a": LONG, "b": LONG}}}
TESTS = {"kubeconfig": "/etc/kai", "tests": ["x" * 1000] * 20}
LARGE_WRITES = {
    "a pool": ("put", "/api/configs/pool/train", {"configs": LARGE}),
    "fields of a pool": ("patch", "/api/configs/pool/train", {"configs_dict": LARGE}),
    "pools": ("put", "/api/configs/pool", {"configs": {"train": LARGE}}),
    "a template": ("put", "/api/configs/pod_template/t", {"configs": TEMPLATE}),
    "templates": ("put", "/api/configs/pod_template", {"configs": {"t": TEMPLATE}}),
    "many small pools": ("put", "/api/configs/pool", {"configs": {f"p{i}": POOL for i in range(17)}}),
    "many small templates": (
        "put",
        "/api/configs/pod_template",
        {"configs": {f"t{i}": {} for i in range(17)}},
    ),
    "a backend": ("put", "/api/configs/backend/kai", {"configs": TESTS}),
}


@pytest.fixture
def busy(pool):
    """The administrator has one large change that is worked on, and two that wait."""
    places = [process_turns().enter("root") for _ in range(3)]
    yield
    for place in places:
        place.leave()
    assert process_turns().is_idle


@pytest.mark.parametrize("change", LARGE_WRITES)
def test_a_large_change_beside_three_others_of_its_author_is_refused(change, admin, busy):
    method, address, body = LARGE_WRITES[change]
    answer = getattr(admin, method)(address, body, format="json")
    assert_error_shape(answer, 429)
    assert answer["Retry-After"] == str(RETRY_SECONDS)
    assert Pool.objects.get().description == ""
    assert not PodTemplate.objects.exists()


def test_a_small_change_is_made_meanwhile(admin, busy):
    assert (
        admin.patch(
            "/api/configs/pool/train", {"configs_dict": {"description": "x"}}, format="json"
        ).status_code
        == 200
    )


def test_a_small_change_beside_many_others_takes_its_turn(admin, busy):
    change = {"configs_dict": {"description": "x"}}
    with ExitStack() as stack:
        for number in range(MOST_SHORT):
            stack.enter_context(short_turn(f"user{number}"))
        assert_error_shape(admin.patch("/api/configs/pool/train", change, format="json"), 429)
    assert admin.patch("/api/configs/pool/train", change, format="json").status_code == 200


def test_a_small_change_of_a_large_pool_takes_its_turn(admin, busy):
    pool = Pool.objects.get()
    Platform.objects.bulk_create(Platform(pool=pool, name=f"p{i}") for i in range(17))
    answer = admin.patch("/api/configs/pool/train", {"configs_dict": {"description": "x"}}, format="json")
    assert_error_shape(answer, 429)


def test_a_rollback_to_a_large_pool_takes_its_turn(admin, put, pool):
    assert put("pool/train", LARGE)[0] == 200
    revision = Pool.objects.get().revision
    assert put("pool/train", POOL)[0] == 200
    places = [process_turns().enter("root") for _ in range(3)]
    try:
        answer = admin.post(
            "/api/configs/history/rollback", {"config_type": "POOL", "revision": revision}, format="json"
        )
        assert_error_shape(answer, 429)
    finally:
        for place in places:
            place.leave()
