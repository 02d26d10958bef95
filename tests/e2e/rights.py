"""The accounts and roles of ``deploy/rbac`` in a test's cluster, and what they were used for.

Every e2e test lets the service act with these and nothing more, so a right that is missing fails some test
for real. The used rights are read from the audit log, which the local cluster keeps for these accounts.
"""

import json
import time

import yaml

from localcluster.directories import CHECKOUT

ROLES = CHECKOUT / "deploy" / "rbac"
SYSTEM = "osmo-topology"
OF_NAMESPACES = ("namespace.yaml", "exec.yaml")
ACCOUNTS = ("web", "worker", "observer")
WORK = "osmo"
TOKEN = "token"
SECONDS = 120.0
REVIEWS = "/apis/authorization.k8s.io/v1/subjectaccessreviews"
ADMISSION = "admissionregistration.k8s.io/v1"
PLURALS = {
    "Namespace": ("v1", "namespaces", False),
    "ServiceAccount": ("v1", "serviceaccounts", True),
    "ClusterRole": ("rbac.authorization.k8s.io/v1", "clusterroles", False),
    "ClusterRoleBinding": ("rbac.authorization.k8s.io/v1", "clusterrolebindings", False),
    "Role": ("rbac.authorization.k8s.io/v1", "roles", True),
    "RoleBinding": ("rbac.authorization.k8s.io/v1", "rolebindings", True),
    "ValidatingAdmissionPolicy": (ADMISSION, "validatingadmissionpolicies", False),
    "ValidatingAdmissionPolicyBinding": (ADMISSION, "validatingadmissionpolicybindings", False),
}


def manifests(name):
    return list(yaml.safe_load_all((ROLES / name).read_text()))


def grant(api, namespace):
    """Make accounts and roles, those of the namespace in this one."""
    for body in (*manifests("cluster.yaml"), *manifests("own-objects.yaml")):
        _apply(api, body)
    for file in OF_NAMESPACES:
        for body in manifests(file):
            _apply(api, in_namespace(body, namespace))
    _until_known(api, namespace)


def _until_known(api, namespace):
    """Wait until the API server has heard of every rule and binding: the first requests would be refused."""
    until_granted(api, "cluster.yaml")
    for file in OF_NAMESPACES:
        until_granted(api, file, namespace=namespace)


def until_granted(api, file, *, namespace=""):
    """Wait until every account may do what a file grants it, in this namespace or everywhere."""
    for account, verb, what in {*granted(file)}:
        _until_allowed(api, account, verb, what, namespace=namespace)


def _until_allowed(api, account, verb, what, **attributes):
    resource, _, name = what.partition(" ")
    resource, _, group = resource.partition(".")
    resource, _, subresource = resource.partition("/")
    attributes |= {"verb": verb, "resource": resource, "subresource": subresource, "group": group}
    review = {
        "user": f"system:serviceaccount:{SYSTEM}:{account}",
        "resourceAttributes": attributes | ({"name": name} if name else {}),
    }
    until = time.monotonic() + SECONDS
    while not api.create(REVIEWS, {"spec": review})["status"]["allowed"]:
        assert time.monotonic() < until, f"not allowed: {review}"
        time.sleep(0.05)


def in_namespace(body, namespace):
    """A manifest of ``namespace.yaml`` for another namespace than the one it is written for."""
    metadata = body["metadata"]
    field = "name" if body["kind"] == "Namespace" else "namespace"
    assert metadata[field] == WORK
    return {**body, "metadata": {**metadata, field: namespace}}


def _apply(api, body):
    version, plural, namespaced = PLURALS[body["kind"]]
    assert body["apiVersion"] == version
    root = f"/apis/{version}" if "/" in version else f"/api/{version}"
    scope = f"/namespaces/{body['metadata']['namespace']}" if namespaced else ""
    api.apply(f"{root}{scope}/{plural}/{body['metadata']['name']}", body, manager="administrator")


def kubeconfig(api, admin, directory, *, processes, token=TOKEN):
    """A kubeconfig with which each process of the service is its own account; returns its path.

    It names a file of the process's own working directory, as each pod has a file of its own at one path;
    ``token`` is that file's name, another one for each control plane.
    """
    for account in ACCOUNTS:
        path = f"/api/v1/namespaces/{SYSTEM}/serviceaccounts/{account}/token"
        spec = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest"}
        answer = api.create(path, spec | {"spec": {"expirationSeconds": 86400}})
        written = directory / account
        written.write_text(answer["status"]["token"])
        written.rename(processes / account / token)  # of several test workers, any token is good
    content = yaml.safe_load(admin.read_text())
    own = {"tokenFile": f"/proc/self/cwd/{token}"}
    content["users"] = [{"name": user["name"], "user": own} for user in content["users"]]
    path = directory / "kubeconfig"
    path.write_text(yaml.safe_dump(content))
    return path


def granted(*files):
    """(account, verb, resource) of every rule; a rule for some names has them behind the resource."""
    bodies = [body for file in files or ("cluster.yaml", "namespace.yaml") for body in manifests(file)]
    rules = {(body["kind"], body["metadata"]["name"]): body["rules"] for body in bodies if "rules" in body}
    for body in bodies:
        if "roleRef" not in body:
            continue
        for subject in body["subjects"]:
            for rule in rules[body["roleRef"]["kind"], body["roleRef"]["name"]]:
                yield from _expanded(subject["name"], rule)


def _expanded(account, rule):
    for group in rule["apiGroups"]:
        for resource in rule["resources"]:
            for verb in rule["verbs"]:
                for name in rule.get("resourceNames", [""]):
                    what = f"{resource}.{group}" if group else resource
                    yield account, verb, f"{what} {name}".rstrip()


def used(log, namespaces):
    """{(account, verb, resource): allowed} of the requests in these namespaces or in none.

    Each is there twice, with the object's name behind the resource and without. A right in one
    namespace may be refused in all: ``manage.py doctor`` lists a whole cluster if it may, else its
    namespaces.
    """
    prefix = f"system:serviceaccount:{SYSTEM}:"
    inside = set(granted())
    found = {}
    for line in log.read_bytes().split(b"\n")[:-1]:  # the last one may be half written
        event = json.loads(line)
        ref = event.get("objectRef")
        if not ref or not event["user"]["username"].startswith(prefix):
            continue
        if ref["resource"] != "namespaces" and ref.get("namespace", "") not in {"", *namespaces}:
            continue
        resource = ref["resource"] + (f"/{ref['subresource']}" if "subresource" in ref else "")
        account = event["user"]["username"].removeprefix(prefix)
        what = f"{resource}.{ref['apiGroup']}" if ref.get("apiGroup") else resource
        allowed = event.get("annotations", {}).get("authorization.k8s.io/decision") != "forbid"
        everywhere = event["verb"] == "list" and not ref.get("namespace")
        if not allowed and everywhere and (account, "list", what) in inside:
            continue
        for key in (what, f"{what} {ref.get('name', '')}"):
            asked = (account, event["verb"], key)
            found[asked] = found.get(asked, True) and allowed
    return found
