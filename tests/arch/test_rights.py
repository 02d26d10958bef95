"""The roles of ``deploy/rbac`` grant the verbs that the calls in the code need, and no others.

A run with these roles (``tests/e2e/test_rights.py``) reaches only some calls. Here each place that calls a
cluster is found in the source, and a table says with which kinds it is reached and by which account. A new
place fails until it stands in the table.
"""

import ast

import pytest

from cluster import kinds
from cluster.kinds import (
    CONFIG_MAP,
    CRD,
    DEVICE_CLASS,
    EVENT,
    NAMESPACE,
    NODE,
    POD,
    RESOURCE_CLAIM,
    RESOURCE_CLAIM_TEMPLATE,
    RESOURCE_QUOTA,
    RESOURCE_SLICE,
    SECRET,
)
from doctor import clusters as doctor_clusters
from localcluster.directories import CHECKOUT
from pools.clusters.guard import CONFIG_MAP_NAME
from pools.clusters.kinds import (
    as_kind,
    gang_kinds,
    owned_kinds,
    pod_group_kinds,
    pool_kinds,
    scheduler_pool_kinds,
)
from pools.preflight.checks import CHANNEL_CLASS
from pools.preflight.rights import ACCOUNTS, COMMANDS, GANGS, PORTS, QUEUE_RULE, rights_of
from scheduling.backends.registry import installed
from tests.e2e import rights
from workflows.reconcile.end import orphans

PACKAGES = ("doctor", "pages", "pools", "web", "whatif", "workflows")
LOG = "pods/log"
IDENTITY = "namespaces kube-system"

VERBS = {
    "get": ["get"],
    "list": ["list"],
    "scan": ["list"],
    "watch": ["list", "watch"],
    "create": ["create"],
    "create_many": ["create"],
    "apply": ["patch", "create"],
    "patch": ["patch"],
    "patch_status": ["patch"],
    "delete": ["delete", "get"],  # after a conflict the name's uid is read
    "delete_many": ["delete", "get"],
    "logs": ["get"],
    "follow_log": ["get"],
    "open_exec": ["get", "create"],
    "open_forward": ["get", "create"],
    "read_crd_schema": ["get"],
    "kube_system_uid": ["get"],
    "discover": [],  # Kubernetes' own role system:discovery
    "server_version": [],
    "server_time": [],
}
"""The verbs of Kubernetes that a method of the gateway uses."""


def _of_schedulers(test):
    return [as_kind(s.pod_group) for s in installed().values() if s.pod_group and test(s)]


def _editable():
    return _of_schedulers(lambda scheduler: scheduler.edits_pod_groups)


def _admitting():
    return _of_schedulers(lambda scheduler: scheduler.admission is not None)


def _parents():
    return [as_kind(kind) for s in installed().values() for kind in s.parents]


def _bind_requests():
    return [as_kind(s.bind_request) for s in installed().values() if s.bind_request]


def _defined():
    """Kinds with a definition of their own: all that schedulers bring, and ComputeDomains."""
    return [kinds.COMPUTE_DOMAIN, *pod_group_kinds(), *scheduler_pool_kinds()]


def _made():
    """What a task group has in its namespace."""
    return [POD, kinds.SERVICE, SECRET, kinds.COMPUTE_DOMAIN, *gang_kinds()]


def _of_trials():
    """What a trial of a hidden gate makes."""
    tried = [s for s in installed().values() if s.hidden_gate]
    return [POD, *(as_kind(kind) for s in tried for kind in (s.pod_group, *s.parents))]


def _queues():
    return [as_kind(s.queues.queue) for s in installed().values() if s.queues]


def _joined():
    return [
        as_kind(kind)
        for s in installed().values()
        if s.joined_queues
        for kind in s.joined_queues.joined_kinds
    ]


def _topologies():
    return [as_kind(s.topologies.kind) for s in installed().values() if s.topologies]


def _own_topologies():
    return [as_kind(s.topologies.kind) for s in installed().values() if s.owns_topologies]


WORKER, WEB, OBSERVER = "worker", "web", "observer"
CALLS = {
    ("doctor/clusters.py", "kube_system_uid"): ([WORKER], lambda: [IDENTITY]),
    ("doctor/clusters.py", "scan"): (
        [WORKER],
        lambda: [*doctor_clusters._kinds(), *doctor_clusters.MADE_BY_OTHERS],
    ),
    ("doctor/repair.py", "kube_system_uid"): ([WORKER], lambda: [IDENTITY]),
    ("pools/clusters/probe.py", "server_version"): ([WORKER, WEB], list),
    ("pools/clusters/probe.py", "kube_system_uid"): ([WORKER, WEB], lambda: [IDENTITY]),
    ("pools/clusters/probe.py", "discover"): ([WORKER, WEB], list),
    ("pools/clusters/probe.py", "read_crd_schema"): ([WORKER, WEB], _defined),
    ("pools/clusters/probe.py", "create"): (
        [WORKER, WEB],
        pod_group_kinds,
    ),  # and the namespace: see OPTIONAL
    ("pools/clusters/probe.py", "get"): ([WORKER], lambda: [NAMESPACE]),
    ("pools/clusters/quotas.py", "scan"): ([WORKER], lambda: [RESOURCE_QUOTA]),
    ("workflows/reconcile/objects/partial_gangs.py", "delete_many"): ([WORKER], lambda: [POD]),
    ("workflows/reconcile/objects/partial_gangs.py", "delete"): ([WORKER], pod_group_kinds),
    ("workflows/reconcile/objects/namespace_quotas.py", "scan"): ([WORKER], lambda: [RESOURCE_QUOTA]),
    ("pools/clusters/guard.py", "kube_system_uid"): ([WORKER], lambda: [IDENTITY]),
    ("pools/clusters/guard.py", "get"): ([WORKER], lambda: [f"configmaps {CONFIG_MAP_NAME}", NAMESPACE]),
    ("pools/clusters/guard.py", "create"): ([WORKER], lambda: [CONFIG_MAP]),  # and the namespace
    ("pools/clusters/guard.py", "patch"): ([WORKER], lambda: [f"configmaps {CONFIG_MAP_NAME}"]),
    ("pools/preflight/cluster.py", "create"): ([WORKER, WEB], list),  # reviews: system:basic-user
    ("pools/preflight/cluster.py", "server_version"): ([WORKER, WEB], list),
    ("pools/preflight/cluster.py", "server_time"): ([WORKER, WEB], list),
    ("pools/preflight/cluster.py", "scan"): ([WORKER], lambda: [NODE]),  # and see PREFLIGHT
    ("pools/preflight/cluster.py", "get"): ([WORKER, WEB], list),  # see PREFLIGHT
    ("pools/preflight/cluster.py", "list"): ([WORKER, WEB], list),  # see PREFLIGHT
    ("pools/services/composites.py", "create"): ([WORKER], _of_trials),
    ("pools/services/composites.py", "get"): ([WORKER], _of_trials),
    ("pools/services/composites.py", "delete"): ([WORKER], _of_trials),
    ("pools/services/sync.py", "kube_system_uid"): ([WORKER], lambda: [IDENTITY]),
    ("pools/services/sync.py", "list"): ([WORKER], pool_kinds),
    ("pools/services/sync.py", "get"): ([WORKER], pool_kinds),
    ("pools/services/sync.py", "create"): ([WORKER], pool_kinds),
    ("pools/services/sync.py", "apply"): ([WORKER], pool_kinds),
    ("pools/services/sync.py", "patch"): ([WORKER], _queues),
    ("pools/services/sync.py", "delete"): ([WORKER], pool_kinds),
    ("workflows/logs/archive.py", "kube_system_uid"): ([WORKER], lambda: [IDENTITY]),
    ("workflows/logs/archive.py", "logs"): ([WORKER], lambda: [LOG]),
    ("workflows/logs/follow.py", "follow_log"): ([WEB], lambda: [LOG]),
    ("workflows/logs/read.py", "logs"): ([WEB], lambda: [LOG]),
    ("workflows/observer/gang_streams.py", "kube_system_uid"): ([OBSERVER], lambda: [IDENTITY]),
    ("workflows/observer/gang_streams.py", "get"): ([OBSERVER], list),  # see others-gangs.yaml
    ("workflows/sessions/exec.py", "open_exec"): ([WEB], list),  # see test of exec.yaml
    ("workflows/sessions/forward.py", "open_forward"): ([WEB], list),
    ("workflows/observer/streams.py", "kube_system_uid"): ([OBSERVER], lambda: [IDENTITY]),
    ("workflows/observer/streams.py", "watch"): (
        [OBSERVER],
        lambda: [
            NODE,
            POD,
            EVENT,
            kinds.COMPUTE_DOMAIN,
            RESOURCE_CLAIM_TEMPLATE,
            RESOURCE_SLICE,
            DEVICE_CLASS,
            *gang_kinds(),
            *_topologies(),
            *_queues(),
            *_joined(),
        ],
    ),
    ("workflows/reconcile/objects/apply.py", "get"): ([WORKER], _made),
    ("workflows/reconcile/objects/apply.py", "create"): ([WORKER], _made),
    ("workflows/reconcile/objects/apply.py", "create_many"): ([WORKER], lambda: [POD]),
    ("workflows/reconcile/objects/apply.py", "delete"): ([WORKER], _made),
    ("workflows/reconcile/objects/apply.py", "delete_many"): ([WORKER], lambda: [POD]),
    ("workflows/reconcile/form/bringing.py", "delete_many"): ([WORKER], lambda: [POD]),
    ("workflows/reconcile/repair/recreate.py", "delete_many"): ([WORKER], lambda: [POD]),
    ("workflows/reconcile/repair/recreate.py", "get"): ([WORKER], gang_kinds),
    ("workflows/reconcile/objects/create.py", "kube_system_uid"): ([WORKER], lambda: [IDENTITY]),
    ("workflows/reconcile/objects/domains.py", "scan"): ([WORKER], lambda: [NODE]),
    ("workflows/reconcile/objects/room.py", "get"): ([WORKER], _admitting),
    ("workflows/reconcile/form/edit.py", "get"): ([WORKER], _editable),
    ("workflows/reconcile/form/edit.py", "patch"): ([WORKER], lambda: [POD, *_editable()]),
    ("workflows/reconcile/form/readiness.py", "get"): ([WORKER], _admitting),
    ("workflows/reconcile/form/readiness.py", "patch_status"): ([WORKER], _admitting),
    ("workflows/reconcile/form/waking.py", "get"): ([WORKER], lambda: [*_admitting(), POD]),
    ("workflows/reconcile/form/waking.py", "delete_many"): ([WORKER], lambda: [POD]),
    ("workflows/reconcile/form/waking.py", "patch"): ([WORKER], _admitting),
    ("workflows/reconcile/objects/other_queues.py", "get"): ([WORKER], _admitting),
    ("workflows/reconcile/objects/other_queues.py", "patch"): ([WORKER], _admitting),
    ("workflows/reconcile/repair/ended_peers.py", "patch"): ([WORKER], lambda: [POD]),
    ("workflows/reconcile/view/group_reader.py", "scan"): (
        [WORKER],
        lambda: [*_made(), RESOURCE_CLAIM, *_bind_requests()],
    ),
    ("workflows/reconcile/view/group_reader.py", "get"): (
        [WORKER],
        lambda: [RESOURCE_CLAIM, RESOURCE_CLAIM_TEMPLATE, *_own_topologies()],
    ),
    ("workflows/reconcile/end/orphans.py", "discover"): ([WORKER], list),
    ("workflows/reconcile/end/orphans.py", "scan"): ([WORKER], orphans.kinds_to_sweep),
    ("workflows/reconcile/end/orphans.py", "delete"): ([WORKER], orphans.kinds_to_sweep),
    ("workflows/tasks.py", "kube_system_uid"): ([WORKER], lambda: [IDENTITY]),
}
"""(file, method): the accounts that get there, and the kinds that they are there for."""

PREFLIGHT = {("list", "resourceslices.resource.k8s.io")} | {
    ("get", f"deviceclasses.resource.k8s.io {CHANNEL_CLASS}")
}
"""What a preflight reads more, where ``deploy/rbac/preflight*.yaml`` are applied; schedulers add theirs."""

READ = [*VERBS["get"], *VERBS["watch"]]

PASSING_ON = {"workflows/reconcile/view/leased.py"}
"""Passes on what reconcile calls."""


FUNCTIONS = {"Watch": "watch", "serves": "discover"}
"""What calls the method of a cluster for its caller."""


def calls():
    """(file, method) of every call of a cluster in the product."""
    for package in PACKAGES:
        for path in (CHECKOUT / package).rglob("*.py"):
            tree = ast.parse(path.read_text())
            for node in ast.walk(tree):
                if isinstance(node, ast.Attribute) and node.attr in VERBS and _is_cluster(node.value):
                    yield path.relative_to(CHECKOUT).as_posix(), node.attr
                if isinstance(node, ast.Call) and (method := FUNCTIONS.get(ast.unparse(node.func))):
                    yield path.relative_to(CHECKOUT).as_posix(), method


def _is_cluster(node):
    name = ast.unparse(node).rpartition(".")[2]
    return name in ("cluster", "_cluster", "api") or name.startswith("cluster_for(")


def needed():
    for (_, method), (accounts, reached) in CALLS.items():
        for kind in reached():
            for account in accounts:
                for verb in VERBS[method]:
                    yield account, verb, _resource(kind, method)


def _resource(kind, method):
    if isinstance(kind, str):
        return kind
    plural = f"{kind.plural}/status" if method == "patch_status" else kind.plural
    name = f"{plural}.{kind.group}" if kind.group else plural
    return f"customresourcedefinitions.{CRD.group} {name}" if method == "read_crd_schema" else name


def test_the_table_names_every_call():
    assert {call for call in calls() if call[0] not in PASSING_ON} == CALLS.keys()


def test_each_method_of_a_cluster_has_its_verbs():
    from cluster.interface import ClusterApi  # noqa: PLC0415 -- the class alone is looked at

    methods = {name for name, value in vars(ClusterApi).items() if callable(value) and name[0] != "_"}
    assert methods == VERBS.keys()


def test_the_rights_that_the_code_needs_are_granted_and_no_others():
    code = set(needed())
    granted = set(rights.granted())
    assert sorted(code - granted) == []
    assert sorted(granted - code) == []


def test_the_rights_that_a_preflight_reviews_are_those_that_are_granted():
    reviewed = {
        (account, right.verb, f"{_named(right)} {right.name}".rstrip(), right.in_namespace)
        for account in ACCOUNTS
        for optional in (True, False)
        for right in rights_of(account, optional=optional)
    }
    granted = {
        (*grant, file == "namespace.yaml")
        for file in ("cluster.yaml", "namespace.yaml")
        for grant in rights.granted(file)
    }
    assert sorted(reviewed - granted) == []
    assert sorted(granted - reviewed) == []


def _named(right):
    return f"{right.resource}.{right.group}" if right.group else right.resource


def test_the_optional_rights_of_a_preflight_are_what_it_reads():
    queries = [query for scheduler in installed().values() for query in _queries(scheduler)]
    needed = PREFLIGHT | {
        ("get", f"{_resource(as_kind(query.resource), 'get')} {query.name}")
        if query.name
        else ("list", _resource(as_kind(query.resource), "list"))
        for query in queries
    }
    granted = set(rights.granted("preflight.yaml", "preflight-kueue.yaml"))
    assert {grant[1:] for grant in granted} == needed
    assert {grant[0] for grant in granted} == {WORKER, WEB}


def test_the_rights_to_keep_queues_are_what_the_sync_does_with_them():
    """None of them is granted by the other files: only a backend that asks for it owns queues."""
    methods = [method for file, method in CALLS if file == "pools/services/sync.py"]
    verbs = {verb for method in methods if method != "kube_system_uid" for verb in VERBS[method]}
    needed = {(WORKER, verb, _resource(kind, "list")) for kind in owned_kinds() for verb in verbs}
    assert set(rights.granted("kueue-queues.yaml")) == needed
    reviewed = {(WORKER, right.verb, _named(right)) for right in QUEUE_RULE.rights()}
    assert (reviewed, QUEUE_RULE.accounts) == (needed, (WORKER,))
    assert not needed & set(rights.granted())


def test_the_rights_to_follow_gangs_of_others_are_what_their_streams_do():
    facets = [scheduler.foreign for scheduler in installed().values() if scheduler.foreign]
    followed = {(verb, as_kind(kind)) for facet in facets for kind in facet.kinds for verb in READ}
    followed |= {(verb, POD) for verb in VERBS["watch"]}
    needed = {(OBSERVER, verb, _resource(kind, verb)) for verb, kind in followed}
    assert set(rights.granted("others-gangs.yaml")) == needed == _reviewed(GANGS)


def _reviewed(*roles):
    return {
        (account, right.verb, _named(right))
        for role in roles
        for account in role.accounts
        for right in role.rights()
    }


def _queries(scheduler):
    return scheduler.installation.installation_queries if scheduler.installation else ()


@pytest.mark.parametrize("verb", ["get", "list", "create", "delete"])
@pytest.mark.parametrize("resource", ["pods", "services", "secrets", "computedomains.resource.nvidia.com"])
def test_the_worker_can_tell_whose_an_object_is_before_it_uses_its_name(verb, resource):
    assert (WORKER, verb, resource) in set(rights.granted())


def test_the_rights_to_sessions_are_webs_alone_and_what_a_session_does():
    """None of them is granted by the other files: only an installation that wants sessions has them."""
    verbs = {(WEB, verb, "pods/exec") for verb in VERBS["open_exec"]}
    verbs |= {(WEB, verb, "pods/portforward") for verb in VERBS["open_forward"]}
    assert set(rights.granted("exec.yaml")) == verbs | {(WEB, "get", "pods")} == _reviewed(COMMANDS, PORTS)
