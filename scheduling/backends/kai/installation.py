"""How KAI is installed in a cluster: its shards, a flag of its scheduler, a right of its binder.

The operator writes one Deployment for each SchedulingShard, named ``<scheduler name>-<shard>``, with flags
``--nodepool-label-key``, ``--partition-label-value`` and those of the shard's ``args``
(``pkg/operator/operands/scheduler/resources_for_shard.go``). The binder's role is ``kai-binder``.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from scheduling.backends.base import ObjectQuery, ResourceKind
from scheduling.capabilities import SchedulerVersion
from scheduling.preflight import CheckResult, Observed, Unread, failed, passed, unknown
from scheduling.sentences import plain_listing

NAMESPACE = "kai-scheduler"
BINDER_ROLE = "kai-binder"
EVICTION_FLAG = "--update-pod-eviction-condition"
GRANULAR_CLAIMS = SchedulerVersion(1, 36)
"""Kubernetes from which a binder needs ``resourceclaims/binding``."""

SHARDS = ObjectQuery(
    "shards", ResourceKind("kai.scheduler/v1", "SchedulingShard", "schedulingshards", namespaced=False)
)
SCHEDULERS = ObjectQuery(
    "schedulers", ResourceKind("apps/v1", "Deployment", "deployments"), namespace=NAMESPACE
)
BINDER = ObjectQuery(
    "binder",
    ResourceKind("rbac.authorization.k8s.io/v1", "ClusterRole", "clusterroles", namespaced=False),
    name=BINDER_ROLE,
)
QUERIES = (SHARDS, SCHEDULERS, BINDER)


def check_installation(
    observed: Observed, *, kubernetes: SchedulerVersion, scheduler_name: str, shard: str
) -> tuple[CheckResult, ...]:
    """Check what was read by ``QUERIES``; ``shard`` is the node-pool value of the backend, or empty."""
    return (
        _shard(observed, shard),
        _eviction_condition(observed, scheduler_name),
        _binder(observed, kubernetes),
    )


def _shard(observed: Observed, own: str) -> CheckResult:
    check = "kai_shard"
    shards = observed[SHARDS.key]
    if isinstance(shards, Unread) and not shards.is_served:
        message = (
            "The cluster does not serve KAI's shards, so which pod groups its scheduler takes is unknown."
        )
        to_do = (
            "Install KAI by its chart, or compare --partition-label-value of its scheduler with the backend."
        )
        return unknown(check, message, to_do)
    if isinstance(shards, Unread):
        to_do = "Grant the right to list schedulingshards.kai.scheduler (deploy/rbac/preflight.yaml)."
        return unknown(check, f"KAI's shards could not be read: {shards.reason}.", to_do)
    values = {
        str((shard.get("spec") or {}).get("partitionLabelValue") or ""): str(shard["metadata"]["name"])
        for shard in shards
    }
    served = f"with node-pool {own}" if own else "without a node-pool label"
    if own in values:
        return passed(check, f'KAI\'s shard "{values[own]}" serves pod groups {served}.')
    names = plain_listing([f"{values[value]} ({value or 'no label'})" for value in sorted(values)], limit=5)
    message = f"No shard of KAI serves pod groups {served}; there is {names or 'none'}."
    to_do = (
        f'Create a SchedulingShard with partitionLabelValue "{own}", or set the backend\'s queue_settings.'
    )
    return failed(check, message, to_do)


def _eviction_condition(observed: Observed, scheduler_name: str) -> CheckResult:
    check = "kai_eviction_condition"
    to_do = (
        f"Start KAI's scheduler with {EVICTION_FLAG}=true (scheduler.additionalArgs, or args of the shard)."
    )
    deployments = observed[SCHEDULERS.key]
    if isinstance(deployments, Unread):
        message = f"Whether KAI marks evicted pods could not be read: {deployments.reason}."
        return unknown(check, message, to_do)
    schedulers = {
        str(deployment["metadata"]["name"]): flags
        for deployment in deployments
        if (flags := _flags(deployment)).get("--scheduler-name") == scheduler_name
    }
    if not schedulers:
        message = f'Namespace {NAMESPACE} has no scheduler "{scheduler_name}", so its flags are not known.'
        return unknown(check, message, to_do)
    without = [name for name, flags in schedulers.items() if not _is_on(flags.get(EVICTION_FLAG))]
    if without:
        message = (
            f"A preemption is hard to recognise: {plain_listing(sorted(without), limit=5)} lacks the flag."
        )
        return failed(check, message, to_do)
    return passed(check, "KAI marks the pods that it evicts.")


def _is_on(value: str | None) -> bool:
    return value is not None and value.lower() in {"", "1", "t", "true"}


def _flags(deployment: Mapping[str, Any]) -> dict[str, str]:
    """The flags of all containers of a Deployment; a flag without a value has an empty one."""
    template = ((deployment.get("spec") or {}).get("template") or {}).get("spec") or {}
    texts = [
        str(text)
        for container in template.get("containers") or ()
        for text in [*(container.get("command") or ()), *(container.get("args") or ())]
    ]
    pairs = (text.partition("=") for text in texts if text.startswith("--"))
    return {name: value for name, _, value in pairs}


def _binder(observed: Observed, kubernetes: SchedulerVersion) -> CheckResult:
    check = "kai_binder"
    if kubernetes < GRANULAR_CLAIMS:
        return passed(check, f"Kubernetes {kubernetes} asks KAI's binder for no right of its own on claims.")
    to_do = (
        f"Install KAI 0.14.1 or later, or add update and patch of resourceclaims/binding to its ClusterRole "
        f"{BINDER_ROLE}."
    )
    roles = observed[BINDER.key]
    if isinstance(roles, Unread):
        return unknown(check, f"The rights of KAI's binder could not be read: {roles.reason}.", to_do)
    if not roles:
        return unknown(
            check, f"There is no ClusterRole {BINDER_ROLE}, so the rights of its binder are not known.", to_do
        )
    if _may_bind_claims(roles):
        return passed(check, "KAI's binder may bind claims, so pods with NVLink get their nodes.")
    message = (
        f"KAI's binder may not bind claims, so on Kubernetes {kubernetes} no pod with NVLink gets a node."
    )
    return failed(check, message, to_do)


def _may_bind_claims(roles: Sequence[Mapping[str, Any]]) -> bool:
    rules = [rule for role in roles for rule in role.get("rules") or ()]
    return any(
        {"resource.k8s.io", "*"} & set(rule.get("apiGroups") or ())
        and {"resourceclaims/binding", "resourceclaims/*", "*/binding", "*"}
        & set(rule.get("resources") or ())
        and {"update", "patch", "*"} & set(rule.get("verbs") or ())
        for rule in rules
    )
