"""A pool's keeper joins the LocalQueues and takes the share of GPUs that its backend allows, and no more."""

import pytest
from django.utils import timezone

from pools import services
from pools.models import Backend, ObservedResource, Pool
from pools.services.declared import apply
from scheduling.errors import InvalidSpec
from tests.api.pools.keepers import keeper_of, write
from tests.error_shape import assert_error_shape
from web.access.rights import read_grants
from web.models import User

pytestmark = pytest.mark.django_db

OPERATOR = services.ConfigChange(username="root", grants=None)
LIMIT = {"guarantee": 8, "maximum": 16, "weight": 2}


def backend_of(scheduler, put, **settings):
    document = {
        "kubeconfig": "/etc/kai",
        "scheduler_settings": {"scheduler_type": scheduler},
        "queue_settings": settings,
    }
    status, reply = put(f"backend/{scheduler}", document)
    assert status == 200, reply
    for name in ("dev", "other"):
        status, reply = put(f"pool/{name}", {"backend": scheduler})
        assert status == 200, reply
    return Backend.objects.get(name=scheduler)


@pytest.fixture
def keeper():
    return keeper_of("pool/dev")


def share(client, **gpu):
    return write(client, "patch", "pool/dev", {"resources": {"gpu": gpu}})


# the share of GPUs


def test_a_keeper_takes_no_more_than_the_backend_allows(put, keeper):
    backend_of("kai", put, share_limit=LIMIT)
    assert share(keeper, guarantee=8, maximum=16, weight=2).status_code == 200
    for gpu in ({"guarantee": 9}, {"maximum": 17}, {"maximum": -1}, {"weight": 2.5}):
        reply = assert_error_shape(share(keeper, **gpu), 403)
        assert "instead of at most" in reply["message"]
        assert '"backend/kai"' in reply["message"]
    assert_error_shape(write(keeper, "patch", "pool/dev", {"resources": None}), 403)  # unlimited again
    assert share(keeper, guarantee=2, maximum=4, weight=1).status_code == 200


def test_a_share_over_a_later_limit_stays_and_may_shrink(put, keeper):
    backend_of("kai", put)
    assert share(keeper, guarantee=64, maximum=128, weight=9).status_code == 200
    settings = {"share_limit": LIMIT}
    assert put("backend/kai", {"kubeconfig": "/etc/kai", "queue_settings": settings})[0] == 200
    assert write(keeper, "patch", "pool/dev", {"description": "new"}).status_code == 200
    assert share(keeper, guarantee=32).status_code == 200
    assert_error_shape(share(keeper, guarantee=48), 403)


def test_a_backend_that_says_nothing_bounds_nothing(put, keeper):
    backend_of("kai", put)
    assert share(keeper, guarantee=1000, maximum=-1, weight=100).status_code == 200


def test_a_caller_who_may_write_the_backend_takes_more(put):
    backend_of("kai", put, share_limit=LIMIT)
    assert share(keeper_of("pool/dev", "backend/kai"), guarantee=64).status_code == 200


def test_a_rollback_and_an_import_take_no_more(put, keeper):
    backend_of("kai", put, share_limit=LIMIT)
    services.patch_pool(name="dev", changes={"resources": {"gpu": {"guarantee": 64}}}, change=OPERATOR)
    large = Pool.objects.get(name="dev").revision
    assert share(keeper, guarantee=1).status_code == 200
    body = {"config_type": "POOL", "revision": large}
    assert keeper.post("/api/configs/history/rollback", body, format="json").status_code == 403
    grants = read_grants(User.objects.get(username="keeper"))
    text = "pools:\n  dev: {backend: kai, resources: {gpu: {guarantee: 64}}}\n"
    with pytest.raises(InvalidSpec, match="instead of at most 8"):
        services.import_configuration(
            text=text, change=services.ConfigChange(username="keeper", grants=grants)
        )


def test_a_declared_file_takes_what_it_says(put, tmp_path, settings):
    backend_of("kai", put, share_limit=LIMIT)
    path = tmp_path / "config.yaml"
    path.write_text("pools:\n  dev: {backend: kai, resources: {gpu: {guarantee: 64}}}\n")
    settings.ENV = settings.ENV.model_copy(update={"topology_config_file": str(path)})
    assert apply()["status"] == "True"


def test_a_limit_that_the_scheduler_would_ignore_is_refused(put):
    document = {
        "kubeconfig": "/etc/kai",
        "scheduler_settings": {"scheduler_type": "default"},
        "queue_settings": {"share_limit": {"maximum": 4}},
    }
    status, reply = put("backend/plain", document)
    assert (status, reply["details"][0]["code"]) == (400, "unsupported_capability")


# LocalQueues


def join(client, queue):
    return write(client, "patch", "pool/dev", {"local_queue": queue})


def test_a_keeper_joins_what_the_backend_lists(put, keeper):
    backend_of("kueue", put, local_queues=["team-a", "team-b"])
    assert join(keeper, "team-b").status_code == 200
    reply = assert_error_shape(join(keeper, "team-c"), 403)
    assert "The backend lists team-a, team-b." in reply["message"]
    assert join(keeper, "").status_code == 200  # the pool's own


def test_a_caller_who_may_write_the_backend_joins_any(put):
    backend_of("kueue", put, local_queues=["team-a"])
    assert join(keeper_of("pool/dev", "backend/kueue"), "team-c").status_code == 200


def observed(backend, queue, owner):
    ObservedResource.objects.create(
        cluster_id=backend.cluster_id,
        resource="localqueues.kueue.x-k8s.io",
        name=f"{backend.namespace}/{queue}",
        uid="u",
        reading={"settings": {"cluster_queue": "c"}, "owner": owner},
        seen_at=timezone.now(),
    )


def test_without_a_list_a_keeper_joins_what_nobody_else_has(put, keeper):
    backend = backend_of("kueue", put)
    observed(backend, "shared", "")
    observed(backend, "made", "0" * 32)
    assert join(keeper, "shared").status_code == 200
    assert join(keeper, "not-there-yet").status_code == 200
    assert_error_shape(join(keeper, "made"), 403)


@pytest.mark.parametrize(("resource", "status"), [("pool/dev", 403), ("pool/*", 200)])
def test_a_queue_of_another_pool_needs_the_right_on_that_pool(resource, status, put):
    backend_of("kueue", put)
    assert put("pool/other", {"backend": "kueue", "local_queue": "theirs"})[0] == 200
    assert join(keeper_of(resource), "theirs").status_code == status


def test_a_queue_that_a_pool_has_already_stays(put, keeper):
    backend_of("kueue", put)
    for name in ("dev", "other"):
        assert put(f"pool/{name}", {"backend": "kueue", "local_queue": "both"})[0] == 200
    content = {"local_queue": "both", "description": "new"}
    assert write(keeper, "patch", "pool/dev", content).status_code == 200


FAULTY = {
    "another scheduler": ("kai", ["a"], "no_local_queues"),
    "no name": ("kueue", ["A_b"], "invalid_queue"),
    "twice": ("kueue", ["a", "a"], "twice"),
}


@pytest.mark.parametrize("case", FAULTY)
def test_a_list_that_says_nothing_is_refused(case, put):
    scheduler, queues, code = FAULTY[case]
    document = {
        "kubeconfig": "/etc/kai",
        "scheduler_settings": {"scheduler_type": scheduler},
        "queue_settings": {"local_queues": queues},
    }
    status, reply = put("backend/b", document)
    assert (status, reply["details"][0]["code"]) == (400, code)
