"""How Kueue is installed in a cluster: what the configuration of its manager says.

The manager reads it at its start from a ConfigMap: a document of ``config.kueue.x-k8s.io``, whose shape
differs by version. In v1beta1 ``waitForPodsReady`` has a switch, in v1beta2 the block itself is the switch
(Kueue v0.19 ``apis/config/v1beta1/configuration_conversion.go``). Feature gates may also be flags of the
manager, but then the document has none; flags are not read.

Somebody else wrote the document: a field of an unexpected form makes its check unknown.
Kueue's webhook for pods (``pkg/controller/jobs/pod/pod_webhook.go``) leaves pods without a queue name alone,
unless ``manageJobsWithoutQueueName`` says otherwise: then it gates them, and nothing opens the gates.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeVar

from scheduling.backends.base import ObjectQuery, ResourceKind
from scheduling.kubernetes_syntax import GPU
from scheduling.preflight import CheckResult, Observed, Unread, failed, passed, unknown
from scheduling.sentences import plain_listing

T = TypeVar("T")

NAMESPACE = "kueue-system"
CONFIG_MAP = "kueue-manager-config"
DOCUMENT = "controller_manager_config.yaml"
TOPOLOGY_GATE = "TopologyAwareScheduling"
"""On by default from Kueue 0.14 on."""

CONFIGURATION = ObjectQuery(
    "configuration",
    ResourceKind("v1", "ConfigMap", "configmaps"),
    namespace=NAMESPACE,
    name=CONFIG_MAP,
    document=DOCUMENT,
)
QUERIES = (CONFIGURATION,)

_PLACE = f"ConfigMap {CONFIG_MAP} in namespace {NAMESPACE}"
_COMPARE = (
    f"Compare the file that Kueue's manager reads (its flag --config): the service knows {_PLACE} alone."
)
_ADVICE = f"Grant the right to get {_PLACE} (deploy/rbac/preflight-kueue.yaml), or look there yourself."
_RESTART = "and restart Kueue's manager."

_SWITCHED, _BY_BLOCK = "config.kueue.x-k8s.io/v1beta1", "config.kueue.x-k8s.io/v1beta2"
"""Versions in which ``waitForPodsReady`` has a switch, and in which its presence is the switch."""

ComponentCheck = Callable[[Mapping[str, Any]], CheckResult]


class _UnexpectedFormError(Exception):
    """A field of the configuration is not what this module knows; the text says which."""


def check_installation(observed: Observed) -> Iterator[CheckResult]:
    """Check what was read by ``QUERIES``."""
    reading = observed[CONFIGURATION.key]
    for check, rule in RULES.items():
        if isinstance(reading, Unread):
            yield _unread(check, reading.reason, _ADVICE)
        elif not reading:
            yield _unread(check, f"there is no {_PLACE}", _COMPARE)
        else:
            yield _checked(check, rule, reading[0])


def _checked(check: str, rule: ComponentCheck, configuration: Mapping[str, Any]) -> CheckResult:
    try:
        return rule(configuration)
    except _UnexpectedFormError as error:
        return _unread(check, str(error), _COMPARE)


def _unread(check: str, reason: str, to_do: str) -> CheckResult:
    return unknown(check, f"Kueue's configuration could not be read: {reason}.", to_do)


def _pods_ready(configuration: Mapping[str, Any]) -> CheckResult:
    check = "kueue_pods_ready"
    if not _waits_for_pods(configuration):
        return passed(check, "Kueue evicts no group for pods that are not ready.")
    seconds = _field(configuration, "waitForPodsReady", "timeout", form=str)
    limit = f" {seconds}" if seconds else " its timeout"
    message = (
        f"waitForPodsReady is on: Kueue evicts a group whose pods do not all run within{limit} of its "
        "admission. The service reports that they run."
    )
    return passed(check, message, f"Let the timeout cover the pull of images (waitForPodsReady in {_PLACE}).")


def _waits_for_pods(configuration: Mapping[str, Any]) -> bool:
    if _field(configuration, "waitForPodsReady", form=dict) is None:
        return False
    version = configuration.get("apiVersion")
    if version == _SWITCHED:
        return bool(_field(configuration, "waitForPodsReady", "enable", form=bool))
    if version == _BY_BLOCK:
        return True
    raise _UnexpectedFormError(f"its apiVersion is neither {_SWITCHED} nor {_BY_BLOCK}")


def _topology(configuration: Mapping[str, Any]) -> CheckResult:
    check = "kueue_topology"
    gate = _field(configuration, "featureGates", TOPOLOGY_GATE, form=bool)
    if gate is None and _field(configuration, "featureGates", "AllBeta", form=bool) is False:
        message = (
            f"Feature gate AllBeta is off, and {TOPOLOGY_GATE} may be one of those that it switches off."
        )
        return unknown(check, message, f"Name {TOPOLOGY_GATE} in featureGates in {_PLACE}, {_RESTART}")
    if gate is False:
        message = f"Feature gate {TOPOLOGY_GATE} is off, so Kueue names no nodes and no group gets pods."
        return failed(check, message, f"Take it out of featureGates in {_PLACE}, {_RESTART}")
    return passed(check, f"Kueue's configuration leaves {TOPOLOGY_GATE} on.")


def _gpus(configuration: Mapping[str, Any]) -> CheckResult:
    """Exclusions bound no quota; until June 2026 (Kueue #12006) they hid GPUs in use from placement, too."""
    check = "kueue_gpus"
    prefixes = _field(configuration, "resources", "excludeResourcePrefixes", form=list) or []
    transformations = _field(configuration, "resources", "transformations", form=list) or []
    if not all(isinstance(prefix, str) for prefix in prefixes):
        raise _UnexpectedFormError("resources.excludeResourcePrefixes lists what is not a text")
    causes = ["excludeResourcePrefixes"] if any(map(GPU.startswith, prefixes)) else []
    if any(map(_replaces_gpus, transformations)):
        causes.append("transformations")
    if not causes:
        return passed(check, f"Kueue counts {GPU}.")
    message = (
        f"Kueue's quota does not count {GPU} ({plain_listing(causes)}), and releases from before June 2026 "
        "assign nodes whose GPUs are in use."
    )
    return passed(check, message, f"Let Kueue count {GPU} (resources in {_PLACE}), or use a later release.")


def _replaces_gpus(transformation: object) -> bool:
    return (
        isinstance(transformation, Mapping)
        and transformation.get("input") == GPU
        and transformation.get("strategy") == "Replace"
    )


def _pods(configuration: Mapping[str, Any]) -> CheckResult:
    check = "kueue_pods"
    everything = _field(configuration, "manageJobsWithoutQueueName", form=bool)
    frameworks = _field(configuration, "integrations", "frameworks", form=list) or []
    selector = _field(configuration, "managedJobsNamespaceSelector", form=dict)
    if not everything or "pod" not in frameworks:
        return passed(check, "Kueue leaves pods without a queue name alone.")
    to_do = f"Leave out the namespaces of tasks by managedJobsNamespaceSelector in {_PLACE}, {_RESTART}"
    if selector or _field(configuration, "integrations", "podOptions", form=dict):
        message = (
            "Kueue holds pods without a queue name where managedJobsNamespaceSelector and podOptions match."
        )
        return unknown(check, message, to_do)
    message = (
        "Kueue holds pods without a queue name in all namespaces that it manages, so no pod of the service "
        "starts."
    )
    return failed(check, message, to_do)


def _field(configuration: Mapping[str, Any], *path: str, form: type[T]) -> T | None:
    """The value at a path, None where it or one above it is absent or null.

    Raises _UnexpectedFormError if it is of another form, or one above it is no mapping.
    """
    value: Any = configuration
    for place, step in enumerate(path):
        if value is None:
            return None
        if not isinstance(value, Mapping):
            raise _UnexpectedFormError(f"{'.'.join(path[:place])} is not a mapping")
        value = value.get(step)
    if value is None or isinstance(value, form):
        return value
    raise _UnexpectedFormError(f"{'.'.join(path)} is not a {_FORMS[form]}")


_FORMS: Mapping[type, str] = {dict: "mapping", list: "list", bool: "boolean"}

RULES: Mapping[str, ComponentCheck] = {
    "kueue_pods_ready": _pods_ready,
    "kueue_topology": _topology,
    "kueue_gpus": _gpus,
    "kueue_pods": _pods,
}
