"""A user's spec reaches nothing that their pool does not allow, whatever it says."""

import json

import pytest
from django.contrib.auth.models import User
from rest_framework.test import APIClient

from scheduling import names
from tests.api.workflows.specs import alone, task, text
from tests.factories import PlatformFactory, PoolFactory, installation
from workflows.models import Workflow

pytestmark = pytest.mark.django_db

ROOTS = ["/data", "/scratch/team:/mnt"]


@pytest.fixture
def pool():
    pool = PoolFactory(name="h100", shared_credentials=["hub"], platforms=())
    PlatformFactory(pool=pool, name="gpu", allowed_mounts=ROOTS, default_mounts=["/models:/models"])
    PlatformFactory(
        pool=pool, name="open", host_network_allowed=True, privileged_allowed=True, allowed_mounts=["/"]
    )
    return pool


@pytest.fixture
def send(pool, api):
    def post(workflow, query="?dry_run=true", *, client=api):
        file = workflow if isinstance(workflow, str) else text(workflow)
        return client.post(f"/api/pool/h100/workflow{query}", {"file": file}, format="json")

    return post


def client_of(name):
    client = APIClient()
    client.force_authenticate(User.objects.create_user(name))
    return client


def objects(answer, kind):
    assert answer.status_code == 200, answer.json()
    return [manifest for manifest in answer.json()["objects"] if manifest["kind"] == kind]


def pod_of(answer):
    (pod,) = objects(answer, "Pod")
    return pod


def variables(container):
    """Those of the user."""
    return [entry for entry in container.get("env", []) if not entry["name"].startswith("OSMO_")]


def secrets_of(pod):
    """Every Secret that a pod reads."""
    (container,) = pod["spec"]["containers"]
    keys = [entry["valueFrom"]["secretKeyRef"]["name"] for entry in variables(container)]
    volumes = pod["spec"].get("volumes", [])
    return keys + [volume["secret"]["secretName"] for volume in volumes if "secret" in volume]


def paths_of(pod):
    """(directory of the node, path below it, place in the container) of every mount of a node."""
    (container,) = pod["spec"]["containers"]
    hosts = {v["name"]: v["hostPath"]["path"] for v in pod["spec"].get("volumes", []) if "hostPath" in v}
    mounts = [m for m in container.get("volumeMounts", []) if m["name"] in hosts]
    return {(hosts[m["name"]], m.get("subPath", ""), m["mountPath"]) for m in mounts}


# What the pool does not allow is refused.

REFUSED = {
    "a privileged task": ({"privileged": True}, "privileged_not_allowed"),
    "the network of the node": ({"hostNetwork": True}, "host_network_not_allowed"),
    "a directory nobody allowed": ({"volumeMounts": ["/etc"]}, "mount_not_allowed"),
    "the whole node": ({"volumeMounts": ["/"]}, "mount_not_allowed"),
    "a directory that only begins alike": ({"volumeMounts": ["/database"]}, "mount_not_allowed"),
    "the parent of an allowed one": ({"volumeMounts": ["/scratch"]}, "mount_not_allowed"),
    "a way out of an allowed one": ({"volumeMounts": ["/data/../etc"]}, "path"),
    "a way out in the target": ({"volumeMounts": ["/data:/../etc"]}, "path"),
    "a way out behind slashes": ({"volumeMounts": ["/data//..//etc"]}, "path"),
    "a relative directory": ({"volumeMounts": ["data"]}, "path"),
    "a source behind two slashes": ({"volumeMounts": ["//etc"]}, "mount_not_allowed"),
    "a third part": ({"volumeMounts": ["/data:/mnt:rw,shared"]}, "path"),
    "the socket of the container runtime": (
        {"volumeMounts": ["/run/containerd/containerd.sock"]},
        "mount_not_allowed",
    ),
    "another source for a default mount": ({"volumeMounts": ["/models:/etc"]}, "mount_not_allowed"),
    "a Secret of a task group": ({"credentials": {f"osmo-{'0' * 32}-files-0": "/x"}}, "credential"),
    "a Secret by a path": ({"credentials": {"../hub": "/x"}}, "credential"),
    "a Secret of another namespace": ({"credentials": {"kube-system/hub": "/x"}}, "credential"),
    "a file outside its place": ({"files": [{"path": "/a/../../b", "contents": ""}]}, "path"),
    "a file at a token": ({"files": [{"path": "/{{host:only}}", "contents": ""}]}, "path"),
    "a variable that is two": ({"environment": {"A=B": "c"}}, "variable"),
    "an image with arguments": ({"image": "img --privileged"}, "image"),
    "an image over lines": ({"image": "img\n  securityContext: {}"}, "image"),
    "fields of pods": ({"serviceAccountName": "admin"}, "unknown_field"),
    "a process space": ({"hostPID": True}, "unknown_field"),
    "a security context": ({"securityContext": {"privileged": True}}, "unknown_field"),
    "a namespace": ({"namespace": "kube-system"}, "unknown_field"),
    "a scheduler": ({"schedulerName": "default-scheduler"}, "unknown_field"),
    "a node": ({"nodeName": "control-plane"}, "unknown_field"),
    "annotations": ({"annotations": {"pod-group-name": "x"}}, "unknown_field"),
    "tolerations": ({"tolerations": [{"operator": "Exists"}]}, "unknown_field"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_a_task_asks_in_vain_for(case, send):
    fields, code = REFUSED[case]
    answer = send(
        alone(**{"resource": "default", **fields}) | {"resources": {"default": {"platform": "gpu"}}}
    )
    assert answer.status_code == 400, answer.json()
    assert code in {fault["code"] for fault in answer.json()["details"]}, answer.json()
    assert not Workflow.objects.exists()


def test_the_rights_that_a_platform_allows_are_had_and_no_others(send):
    spec = {"privileged": True, "hostNetwork": True, "volumeMounts": ["/etc:/node"]}
    pod = pod_of(send(alone(**spec) | {"resources": {"default": {"platform": "open"}}}))
    (container,) = pod["spec"]["containers"]
    assert container["securityContext"] == {"privileged": True}
    assert pod["spec"]["hostNetwork"] is True
    assert "hostPID" not in pod["spec"]
    assert "hostIPC" not in pod["spec"]


def test_a_pod_holds_no_key_to_the_cluster_and_no_door_to_the_node(send):
    """The whole of what may be in a pod's spec: a field that is added must be added here, too."""
    pod = pod_of(
        send(alone(credentials={"mine": "/c", "hub": {"T": "t"}}, volumeMounts=["/data/a"], environment={}))
    )
    assert pod["spec"]["automountServiceAccountToken"] is False
    assert pod["spec"]["enableServiceLinks"] is False
    assert set(pod["spec"]) <= {
        "automountServiceAccountToken", "containers", "enableServiceLinks", "hostname", "nodeSelector",
        "restartPolicy", "schedulerName", "subdomain", "tolerations", "volumes",
    }  # fmt: skip
    (container,) = pod["spec"]["containers"]
    assert set(container) <= {"name", "image", "command", "args", "env", "resources", "volumeMounts"}
    assert pod["metadata"]["namespace"] == "osmo"


# Secrets: one's own, and those that the pool shares.


def test_a_credential_is_a_secret_of_the_user_alone(send, pool):
    spec = alone(credentials={"token": {"TOKEN": "key"}, "s3": "/keys"})
    ann, bob = pod_of(send(spec)), pod_of(send(spec, client=client_of("bob")))
    own = names.credential_prefix(installation(), "ann")
    assert sorted(secrets_of(ann)) == [f"{own}s3", f"{own}token"]
    assert not set(secrets_of(ann)) & set(secrets_of(bob))


def test_nobody_can_write_the_name_of_another_users_secret(send):
    """Not by writing it out, whatever they are called."""
    whose = names.credential_prefix(installation(), "ann") + "token"
    bob = client_of("bob")
    (read,) = secrets_of(pod_of(send(alone(credentials={whose: "/x"}), client=bob)))
    assert read == names.credential_prefix(installation(), "bob") + whose
    odd = client_of("ann-token")
    (read,) = secrets_of(pod_of(send(alone(credentials={"token": "/x"}), client=odd)))
    assert read != whose


def test_a_secret_that_the_pool_shares_is_read_by_its_name(send):
    assert secrets_of(pod_of(send(alone(credentials={"hub": {"T": "t"}}), client=client_of("bob")))) == [
        "hub"
    ]


def test_the_reply_says_where_each_credential_is_read_from(send, api):
    tasks = [task("a", credentials={"token": "/x", "hub": "/y"}), task("b", credentials={"token": "/x"})]
    warnings = send({"name": "train", "tasks": tasks}, "").json()["warnings"]
    prefix = api.get("/api/profile/settings").json()["credential_prefix"]
    assert warnings == [
        (
            f'Credential "token" is read from the Secret "{prefix}token" in namespace "osmo", '
            'which belongs to "ann".'
        ),
        'Credential "hub" is read from the Secret "hub" in namespace "osmo", which pool "h100" shares.',
    ]


def test_an_accepted_workflow_keeps_its_secrets_when_the_pool_stops_sharing(send, pool):
    send(alone(credentials={"hub": "/x"}), "")
    pool.shared_credentials = []
    pool.save()
    (frozen,) = Workflow.objects.get().groups.get().tasks.values_list("spec", flat=True)
    assert frozen["credentials"] == {"hub": "/x"}


# Labels.

ORDERS = [
    "kai.scheduler/queue", "kai.scheduler/subgroup-name", "x.kai.scheduler/y", "runai/queue", "run.ai/queue",
    "runai-gpu-group", "priorityClassName", "osmo.pool", "osmo.submitted_by", "osmo.nvidia.com/task-group",
    "osmo.nvidia.com/installation", "nvidia.com/gpu.clique", "resource.nvidia.com/computeDomain",
    "app.kubernetes.io/managed-by", "topology.kubernetes.io/zone", "batch.kubernetes.io/job-name",
    "pod-security.kubernetes.io/enforce", "kueue.x-k8s.io/queue-name", "scheduling.x-k8s.io/pod-group",
    "volcano.sh/queue-name", "scheduling.volcano.sh/queue-name", "sidecar.istio.io/inject",
    "grove.io/podgang", "azure.workload.identity/use", "admission.datadoghq.com/enabled",
    "tags.datadoghq.com/service", "eks.amazonaws.com/skip-pod-identity-webhook", "security.gke.io/exempt",
    "cloud.google.com/gke-accelerator", "linkerd.io/inject", "config.linkerd.io/proxy-cpu-limit",
    "security.istio.io/tlsMode", "kuma.io/sidecar-injection", "consul.hashicorp.com/connect-inject",
    "dapr.io/enabled", "sidecar.opentelemetry.io/inject", "vault.hashicorp.com/agent-inject",
    "policy.sigstore.dev/include", "inject.nobody-knew.example/now", "aadpodidbinding", "job-name",
    "pod-group-name", "pod-group.scheduling.sigs.k8s.io",
]  # fmt: skip


@pytest.fixture
def _own_domain(settings):
    settings.ENV = settings.ENV.model_copy(update={"pod_label_domains": ["example.com", "istio.io"]})


@pytest.mark.usefixtures("_own_domain")
@pytest.mark.parametrize("door", ["spec", "query"])
def test_labels_that_give_orders_stay_off_the_pods(door, send):
    plain = pod_of(send(alone()))["metadata"]["labels"]
    for some in (ORDERS[place : place + 12] for place in range(0, len(ORDERS), 12)):
        labels = dict.fromkeys(some, "forged")
        if door == "spec":
            answer = send(alone() | {"labels": labels | {"team": "a", "example.com/team": "b"}})
        else:
            query = "".join(f"&label={key}%3Dforged" for key in some)
            answer = send(alone(), f"?dry_run=true&label=team%3Da&label=example.com/team%3Db{query}")
        labels = pod_of(answer)["metadata"]["labels"]
        assert "forged" not in labels.values()
        assert set(labels) == {*plain, "team", "example.com/team"}
        (warning,) = answer.json()["warnings"]
        assert "not set on pods" in warning


def test_a_label_with_a_domain_needs_one_that_is_listed(send, settings):
    workflow = alone() | {"labels": {"team": "a", "example.com/team": "b", "hr.example.com/team": "c"}}
    answer = send(workflow)
    assert "team" in pod_of(answer)["metadata"]["labels"]
    assert not [key for key in pod_of(answer)["metadata"]["labels"] if "example.com" in key]
    assert '"example.com/team"' in answer.json()["warnings"][0]
    assert "OSMO_POD_LABEL_DOMAINS" in answer.json()["warnings"][0]
    settings.ENV = settings.ENV.model_copy(update={"pod_label_domains": ["example.com"]})
    answer = send(workflow | {"labels": workflow["labels"] | {"notexample.com/team": "d"}})
    labels = {key for key in pod_of(answer)["metadata"]["labels"] if "example.com" in key}
    assert labels == {"example.com/team", "hr.example.com/team"}
    send(workflow, "")
    assert Workflow.objects.get().labels["example.com/team"] == "b"


def test_labels_reach_no_other_object(send):
    answer = send({"name": "train", "labels": {"team": "a"}, "groups": [
        {"name": "g", "tasks": [task("a", lead=True, files=[{"path": "/x", "contents": "x"}]), task("b")]}
    ]})  # fmt: skip
    others = [manifest for manifest in answer.json()["objects"] if manifest["kind"] != "Pod"]
    assert {manifest["kind"] for manifest in others} == {"Secret", "PodGroup", "Service"}
    assert all("team" not in manifest["metadata"]["labels"] for manifest in others)


# Mounts: only what is really below an allowed directory, links on the node included.

MOUNTS = {
    "an allowed directory": ("/data", ("/data", "", "/data")),
    "the same with a slash": ("/data/", ("/data", "", "/data")),
    "the same elsewhere": ("/data:/d", ("/data", "", "/d")),
    "a directory below": ("/data/a/b", ("/data", "a/b", "/data/a/b")),
    "a directory below, elsewhere": ("/data/a:/x", ("/data", "a", "/x")),
    "one below, behind dots and slashes": ("/data/.//a/./b/:/x", ("/data", "a/b", "/x")),
    "one below the source of a pair": ("/scratch/team/a", ("/scratch/team", "a", "/scratch/team/a")),
    "one that is mounted by default": ("/models:/models", ("/models", "", "/models")),
}


@pytest.mark.parametrize("case", MOUNTS)
def test_a_mount_follows_no_link_out_of_its_directory(case, send):
    """The kubelet opens a subPath step by step inside its volume, and a link in a hostPath anywhere."""
    written, want = MOUNTS[case]
    pod = pod_of(send(alone(volumeMounts=[written]) | {"resources": {"default": {"platform": "gpu"}}}))
    assert paths_of(pod) == {("/models", "", "/models"), want}


# Tokens and other texts.


def test_tokens_name_nothing_but_what_is_the_users(send):
    """They are filled in once, and never again in what they became."""
    tokens = "{{host:other}} {{host:{{uuid}}}} {{input:0}} {{ secrets }} {{workflow_id}}"
    answer = send("{% raw %}\n" + text(alone(args=[tokens])) + "{% endraw %}\n")
    if answer.status_code == 200:
        (argument,) = pod_of(answer)["spec"]["containers"][0]["args"]
        assert "secrets }}" in argument
    else:
        assert {fault["code"] for fault in answer.json()["details"]} == {"unknown_task"}


TEXTS = [
    "\u0000",
    "\ud800",
    "a: b\nprivileged: true",
    '"}, "hostNetwork": true, {"',
    "$(HOSTNAME)",
    "{{uuid",
    "%s",
]


@pytest.mark.parametrize("tokens", TEXTS)
def test_a_text_stays_a_text(tokens, send):
    answer = send({"name": "train", "tasks": [task("only", args=[tokens], environment={"A": tokens})]})
    if answer.status_code == 400:
        return
    (container,) = pod_of(answer)["spec"]["containers"]
    assert container["args"] == [tokens]
    assert variables(container) == [{"name": "A", "value": tokens}]
    assert "hostNetwork" not in pod_of(answer)["spec"]


@pytest.mark.parametrize(
    "node", ["a,b", "a b", "A", "a\nb", "-a", "*", "", "a" * 64, "node-1) or (true"], ids=repr
)
def test_a_node_left_out_is_the_name_of_one_node(node, send):
    answer = send(alone() | {"resources": {"default": {"nodesExcluded": [node]}}})
    assert answer.status_code == 400
    assert "nodesExcluded" in json.dumps(answer.json()["details"])


@pytest.mark.parametrize("priority", ["HIGHEST", "system-node-critical", "high", "HIGH ", ""])
def test_a_priority_is_one_of_three(priority, send):
    answer = send(alone(), f"?dry_run=true&priority={priority}")
    if answer.status_code == 200:
        assert pod_of(answer)["metadata"]["labels"]["osmo.priority"] in {"high", "normal"}
    else:
        assert answer.status_code == 400


@pytest.mark.parametrize(
    "name", ["../x", "a/b", "a.b", "osmo-ctrl", "a" * 65, "-a", "a-", "ä", "a\n", "{{uuid}}"], ids=repr
)
def test_a_name_is_a_name(name, send):
    assert send({"name": "train", "tasks": [task(name)]}).status_code == 400
