"""The rights of each process in a cluster, as ``deploy/rbac`` grants them.

The image does not contain the manifests, so they stand here again, by rule; ``tests/arch/test_rights.py``
compares both with each other and with the calls in the code.
"""

from collections.abc import Iterator
from dataclasses import dataclass

WORKER, OBSERVER, WEB = "worker", "observer", "web"
ACCOUNTS = (WORKER, OBSERVER, WEB)


@dataclass(frozen=True, slots=True, order=True)
class Right:
    """One verb on one resource. ``resource`` may have a subresource (``pods/log``); ``name`` is one object's.

    A right in a namespace has that of the backend; any other is of the whole cluster.
    """

    verb: str
    resource: str
    group: str = ""
    name: str = ""
    in_namespace: bool = False

    def __str__(self) -> str:
        resource = f"{self.resource}.{self.group}" if self.group else self.resource
        return f"{self.verb} {resource}{f' {self.name}' if self.name else ''}"


@dataclass(frozen=True, slots=True)
class Rule:
    """One rule of ``deploy/rbac``, for some accounts; resources, verbs and names are separated by spaces."""

    accounts: tuple[str, ...]
    group: str
    resources: str
    verbs: str
    names: str = ""
    in_namespace: bool = False
    optional: bool = False

    def rights(self) -> Iterator[Right]:
        for resource in self.resources.split():
            for verb in self.verbs.split():
                for name in self.names.split() or [""]:
                    yield Right(verb, resource, self.group, name, self.in_namespace)


_DEFINITIONS = (
    "podgroups.scheduling.run.ai podgroups.scheduling.k8s.io queues.scheduling.run.ai "
    "topologies.kai.scheduler workloads.kueue.x-k8s.io computedomains.resource.nvidia.com"
)
_GROUPS = "podgroups compositepodgroups workloads"
_OWN = "get list create patch delete"

RULES = (
    Rule(ACCOUNTS, "", "namespaces", "get", names="kube-system"),
    Rule((WORKER, WEB), "apiextensions.k8s.io", "customresourcedefinitions", "get", names=_DEFINITIONS),
    Rule((WORKER,), "", "nodes", "list"),
    Rule((WORKER,), "scheduling.run.ai", "queues", _OWN),
    Rule((WORKER,), "kai.scheduler", "topologies", _OWN),
    Rule((WORKER,), "scheduling.k8s.io", "priorityclasses", _OWN),
    Rule((OBSERVER,), "", "nodes", "list watch"),
    Rule((OBSERVER,), "kai.scheduler", "topologies", "list watch"),
    Rule((OBSERVER,), "scheduling.run.ai", "queues", "list watch"),
    Rule((OBSERVER,), "kueue.x-k8s.io", "localqueues clusterqueues resourceflavors topologies", "list watch"),
    Rule((OBSERVER,), "resource.k8s.io", "resourceslices deviceclasses", "list watch"),
    Rule((OBSERVER,), "", "pods", "list watch", optional=True),
    Rule((WORKER,), "", "pods", _OWN, in_namespace=True),
    Rule((WORKER,), "", "services secrets", "get list create delete", in_namespace=True),
    Rule((WORKER,), "", "resourcequotas", "list", in_namespace=True, optional=True),
    Rule((WORKER,), "", "configmaps", "create", in_namespace=True),
    Rule((WORKER,), "", "configmaps", "get patch", names="osmo-topology-installations", in_namespace=True),
    Rule((WORKER, WEB), "", "pods/log", "get", in_namespace=True),
    Rule((WORKER,), "scheduling.run.ai", "podgroups", _OWN, in_namespace=True),
    Rule((WORKER,), "scheduling.run.ai", "bindrequests", "list", in_namespace=True),
    Rule((WORKER,), "scheduling.k8s.io", _GROUPS, "get list create delete", in_namespace=True),
    Rule((WORKER,), "kueue.x-k8s.io", "workloads", _OWN, in_namespace=True),
    Rule((WORKER,), "kueue.x-k8s.io", "workloads/status", "patch", in_namespace=True),
    Rule((WORKER,), "resource.nvidia.com", "computedomains", "get list create delete", in_namespace=True),
    Rule(
        (WORKER,), "resource.k8s.io", "resourceclaimtemplates resourceclaims", "get list", in_namespace=True
    ),
    Rule((WORKER,), "", "namespaces", "get", in_namespace=True),
    Rule((OBSERVER,), "", "pods events", "list watch", in_namespace=True),
    Rule((OBSERVER,), "scheduling.run.ai", "podgroups", "list watch", in_namespace=True),
    Rule((OBSERVER,), "scheduling.k8s.io", _GROUPS, "list watch", in_namespace=True),
    Rule((OBSERVER,), "kueue.x-k8s.io", "workloads", "list watch", in_namespace=True),
    Rule((OBSERVER,), "resource.nvidia.com", "computedomains", "list watch", in_namespace=True),
    Rule((OBSERVER,), "resource.k8s.io", "resourceclaimtemplates", "list watch", in_namespace=True),
    Rule((WEB,), "scheduling.run.ai", "podgroups", "create", in_namespace=True),
    Rule((WEB,), "scheduling.k8s.io", "podgroups", "create", in_namespace=True),
    Rule((WEB,), "kueue.x-k8s.io", "workloads", "create", in_namespace=True),
)


QUEUE_RULE = Rule(
    (WORKER,), "kueue.x-k8s.io", "localqueues clusterqueues resourceflavors topologies", _OWN, optional=True
)
"""Of ``deploy/rbac/kueue-queues.yaml``: for backends with queues of the service's own alone."""


@dataclass(frozen=True, slots=True)
class OptionalRole:
    """A file of ``deploy/rbac`` that only some backends need, and the sentences with it and without."""

    check: str
    file: str
    rules: tuple[Rule, ...]
    granted: str
    lacking: str
    instead: str

    @property
    def accounts(self) -> tuple[str, ...]:
        return self.rules[0].accounts

    def rights(self) -> frozenset[Right]:
        return frozenset(right for rule in self.rules for right in rule.rights())


_POD = Rule((WEB,), "", "pods", "get", in_namespace=True, optional=True)
_READ = "get list watch"

QUEUES = OptionalRole(
    "queue_rights",
    "kueue-queues.yaml",
    (QUEUE_RULE,),
    "Queues of the service's own can be kept",
    "Queues of the service's own cannot be kept",
    "set queue_settings.own_queues to false",
)
COMMANDS = OptionalRole(
    "exec_rights",
    "exec.yaml",
    (_POD, Rule((WEB,), "", "pods/exec", "get create", in_namespace=True, optional=True)),
    "Commands can be run in tasks of pools with allow_exec",
    "Commands in tasks of pools with allow_exec end in a refusal of the cluster",
    "set allow_exec of these pools to false",
)
PORTS = OptionalRole(
    "port_forward_rights",
    "exec.yaml",
    (_POD, Rule((WEB,), "", "pods/portforward", "get create", in_namespace=True, optional=True)),
    "Ports can be forwarded from tasks of pools with allow_port_forward",
    "Ports of tasks of pools with allow_port_forward end in a refusal of the cluster",
    "set allow_port_forward of these pools to false",
)
GANGS = OptionalRole(
    "others_gangs_rights",
    "others-gangs.yaml",
    (
        Rule((OBSERVER,), "", "pods", "list watch", optional=True),
        Rule((OBSERVER,), "scheduling.run.ai", "podgroups", _READ, optional=True),
        Rule((OBSERVER,), "kueue.x-k8s.io", "workloads", _READ, optional=True),
        Rule((OBSERVER,), "scheduling.k8s.io", "podgroups compositepodgroups", _READ, optional=True),
    ),
    "Gangs that others submitted can be followed",
    "Gangs that others submitted cannot be followed",
    "set follow_others of the backend to false",
)
OPTIONAL_ROLES = (QUEUES, COMMANDS, PORTS, GANGS)


def rights_of(account: str, *, optional: bool) -> frozenset[Right]:
    """The rights that one account needs, or those that it can do without."""
    return frozenset(
        right
        for rule in RULES
        if account in rule.accounts and rule.optional == optional
        for right in rule.rights()
    )


COMMON = frozenset(right for rule in RULES for right in rule.rights())
"""Those that are asked for every backend."""


def account_of(username: str) -> str:
    """The account whose service account this is; empty if the credentials are those of all processes.

    A chart may put its release before the account's name.
    """
    prefix, _, name = username.rpartition(":")
    if not prefix.startswith("system:serviceaccount:"):
        return ""
    return next((account for account in ACCOUNTS if name == account or name.endswith(f"-{account}")), "")
