"""A backend's keeper points it at no kubeconfig and no namespace of another backend, through any door."""

import pytest

from cluster import connection
from pools import services
from pools.models import Backend
from scheduling import names
from scheduling.errors import InvalidSpec
from tests.api.pools.keepers import keeper_of, write
from tests.error_shape import assert_error_shape
from tests.fakes.kai import kai_cluster
from web.access.rights import read_grants
from web.models import User

pytestmark = pytest.mark.django_db

OPERATOR = services.ConfigChange(username="root", grants=None)


@pytest.fixture
def backends(put, clusters):
    """Backend mine in a cluster of its own, theirs in another, and a further way to theirs."""
    clusters |= {"/etc/mine": kai_cluster(uid="mine"), "/etc/theirs": kai_cluster(uid="theirs")}
    clusters["/etc/free"] = clusters["/etc/theirs"]
    mine = {"kubeconfig": "/etc/mine", "context": "a", "k8s_namespace": "mine"}
    assert put("backend/mine", mine)[0] == 200
    assert put("backend/theirs", {"kubeconfig": "/etc/theirs", "k8s_namespace": "theirs"})[0] == 200


MINE = ("backend/mine", "backend/new")
REFUSED = {
    "a kubeconfig": ("put", "backend/mine", {"kubeconfig": "/etc/theirs", "k8s_namespace": "mine"}),
    "a context": ("post", "backend/mine", {"kubeconfig": "/etc/theirs", "context": "other"}),
    "a new backend": ("put", "backend/new", {"kubeconfig": "/etc/theirs", "k8s_namespace": "new"}),
    "a namespace by another way": (
        "put", "backend/mine", {"kubeconfig": "/etc/free", "k8s_namespace": "theirs"}
    ),
    "a new backend in a namespace": (
        "put", "backend/new", {"kubeconfig": "/etc/free", "k8s_namespace": "theirs"}
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", REFUSED)
def test_what_another_backend_uses_needs_the_right_on_it(case, backends):
    client = keeper_of(*MINE)
    method, address, content = REFUSED[case]
    for query in ("?dry_run=true", ""):
        reply = assert_error_shape(write(client, method, address + query, content), 403)
        assert "by another backend" in reply["message"]
        assert '"backend/theirs"' not in reply["message"]  # the keeper may not know it
    assert Backend.objects.get(name="mine").kubeconfig == "/etc/mine"
    assert not Backend.objects.filter(name="new").exists()


@pytest.mark.parametrize("case", REFUSED)
def test_a_caller_with_both_rights_may(case, backends):
    assert write(keeper_of("backend/*"), *REFUSED[case]).status_code == 200


def test_a_backend_that_may_be_read_is_named(backends):
    client = keeper_of(*MINE)
    user = User.objects.get(username="keeper")
    user.role_assignments.create(role="osmo-user")  # config:Read on everything
    reply = assert_error_shape(write(client, *REFUSED["a kubeconfig"]), 403)
    assert 'This needs config:Update on "backend/theirs"' in reply["message"]


def test_a_cluster_is_not_asked_with_credentials_of_others(backends, clusters):
    del clusters["/etc/theirs"]  # whoever connected now would fail
    assert_error_shape(write(keeper_of(*MINE), *REFUSED["a new backend"]), 403)


def test_a_cluster_that_does_not_answer_may_be_any(backends, clusters):
    clusters["/etc/silent"] = clusters["/etc/mine"]
    client = keeper_of(*MINE)
    content = {"kubeconfig": "/etc/silent", "k8s_namespace": "theirs"}
    assert write(client, "put", "backend/new?dry_run=true", content).status_code == 200
    Backend.objects.filter(name="theirs").update(cluster=None)
    reply = assert_error_shape(write(client, "put", "backend/new", content), 403)
    assert "perhaps of the same cluster" in reply["message"]


def test_what_is_nobodys_is_the_keepers_to_use(backends, clusters):
    client = keeper_of(*MINE)
    clusters["/etc/other"] = kai_cluster(uid="other")
    for content in (
        {"description": "new"},
        {"scheduler_settings": {"scheduler_timeout": 60}},
        {"k8s_namespace": "more"},
        {"context": "b"},
        {"kubeconfig": "/etc/other"},
        {"k8s_namespace": "theirs"},  # of another cluster
    ):
        answer = write(client, "post", "backend/mine", content)
        assert answer.status_code == 200, answer.json()


def test_backends_that_share_already_are_edited_as_before(backends, put):
    assert put("backend/mine", {"kubeconfig": "/etc/theirs", "k8s_namespace": "theirs"})[0] == 200
    client = keeper_of(*MINE)
    for content in ({"description": "new"}, {"enabled": False}, {"imex_dns_names": False}):
        assert write(client, "post", "backend/mine", content).status_code == 200


@pytest.fixture
def sharing(put, clusters):
    """Backends mine and theirs in one cluster, theirs below research, and far elsewhere."""
    clusters |= {"/etc/mine": kai_cluster(uid="one"), "/etc/far": kai_cluster(uid="far")}
    clusters["/etc/theirs"] = clusters["/etc/mine"]
    for name, file in (("mine", "mine"), ("theirs", "theirs"), ("lab", "theirs"), ("far", "far")):
        queues = {"parent": "research"} if name == "lab" else {}
        content = {"kubeconfig": f"/etc/{file}", "k8s_namespace": name, "queue_settings": queues}
        status, reply = put(f"backend/{name}", content)
        assert status == 200, reply


def below(parent, namespace="mine"):
    return {"kubeconfig": "/etc/mine", "k8s_namespace": namespace, "queue_settings": {"parent": parent}}


PARENTS = {
    "the queue above another backend's": "osmo-topology-default-theirs",
    "the queue of a pool": "osmo-topology-pool-theirs-train",
    "another backend's parent": "research",
}


@pytest.mark.parametrize("case", PARENTS)
@pytest.mark.parametrize("name", ["mine", "new"])
def test_pools_stand_below_no_queue_of_another_backend(case, name, sharing, put):
    client, content = keeper_of(*MINE), below(PARENTS[case], namespace=name)
    method = "put" if name == "new" else "post"
    for query in ("?dry_run=true", ""):
        if name == "mine":
            content = {"queue_settings": {"parent": PARENTS[case]}}
        reply = assert_error_shape(write(client, method, f"backend/{name}{query}", content), 403)
        assert "is used by another backend" in reply["message"]
    status, reply = put(f"backend/{name}", below(PARENTS[case], namespace=name))  # with both rights
    assert status == 200, reply
    answer = write(client, "post", f"backend/{name}", {"description": "stays"})
    assert answer.status_code == 200, answer.json()


@pytest.mark.parametrize("parent", ["ours", "osmo-topology-default-far", "osmo-topology-pool-mine-a"])
def test_a_queue_of_no_other_backend_of_the_cluster_may_be_the_parent(parent, sharing):
    answer = write(keeper_of(*MINE), "post", "backend/mine", {"queue_settings": {"parent": parent}})
    assert answer.status_code == 200, answer.json()


@pytest.mark.parametrize(
    ("prefix", "namespace", "queue"),
    [
        ("a-pool", "x", names.queue("default", "x", prefix="a")),
        ("a-default-pool", "x", names.parent_queue("pool-default-x", prefix="a")),
    ],
)
def test_a_prefix_gives_no_queue_the_name_of_anothers(prefix, namespace, queue, sharing, put):
    assert names.parent_queue(namespace, prefix=prefix) == queue
    status, reply = put("backend/mine", below("") | {"queue_settings": {"prefix": prefix}})
    (fault,) = reply["details"]
    assert (status, fault["code"], fault["path"]) == (400, "invalid_prefix", "configs.queue_settings.prefix")
    Backend.objects.filter(name="mine").update(queue_settings={"prefix": prefix})
    status, reply = put("backend/mine", below("") | {"queue_settings": {"prefix": prefix}})
    assert status == 200, reply


def test_a_rollback_gives_no_address_back(backends, put):
    content = {"kubeconfig": "/etc/theirs", "k8s_namespace": "x"}
    assert put("backend/mine", content)[0] == 200
    old = Backend.objects.get(name="mine").revision
    assert put("backend/mine", {"kubeconfig": "/etc/mine", "k8s_namespace": "x"})[0] == 200
    body = {"config_type": "BACKEND", "revision": old}
    answer = keeper_of(*MINE).post("/api/configs/history/rollback", body, format="json")
    assert answer.status_code == 403, answer.json()


def test_an_import_reaches_no_further_than_its_caller(backends):
    keeper_of(*MINE)
    grants = read_grants(User.objects.get(username="keeper"))
    text = "backends:\n  mine: {kubeconfig: /etc/theirs, k8s_namespace: mine}\n"
    change = services.ConfigChange(username="keeper", grants=grants)
    with pytest.raises(InvalidSpec, match="by another backend"):
        services.import_configuration(text=text, change=change)
    assert services.import_configuration(text=text, change=OPERATOR).changed


@pytest.mark.parametrize("path", ["/etc//mine", "/etc/./mine", "/etc/../etc/mine", "/etc/..data/mine"])
def test_a_kubeconfig_has_one_name(path, put):
    status, reply = put("backend/new", {"kubeconfig": path})
    assert (status, reply["details"][0]["code"]) == (400, "invalid_path")


RESERVED = ["kube-system", "kube-public", "kai-scheduler", "kueue-system", "gpu-operator", "release"]


@pytest.mark.parametrize("namespace", RESERVED)
def test_a_namespace_of_the_system_is_no_backends(namespace, backends, put, monkeypatch):
    monkeypatch.setattr("pools.services.addresses.own_namespace", lambda: "release")
    for name in ("mine", "new"):
        status, reply = put(f"backend/{name}", {"kubeconfig": "/etc/mine", "k8s_namespace": namespace})
        (fault,) = reply["details"]
        assert (status, fault["code"], fault["allowed"]) == (400, "reserved_namespace", ["osmo"])


def test_a_backend_that_has_such_a_namespace_keeps_it(backends, put):
    Backend.objects.filter(name="mine").update(namespace="kube-system")
    content = {"kubeconfig": "/etc/mine", "context": "a", "k8s_namespace": "kube-system", "description": "x"}
    assert put("backend/mine", content)[0] == 200


def test_the_namespace_of_the_service_is_that_of_its_account(tmp_path, monkeypatch):
    (tmp_path / "namespace").write_text("release")
    monkeypatch.setattr(connection.incluster_config, "SERVICE_TOKEN_FILENAME", str(tmp_path / "token"))
    assert connection.own_namespace.__wrapped__() == "release"
    monkeypatch.setattr(connection.incluster_config, "SERVICE_TOKEN_FILENAME", "/nowhere/token")
    assert connection.own_namespace.__wrapped__() == ""
