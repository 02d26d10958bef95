"""What the kubelet does with a pod that has claims: prepare them, and start it only then.

The driver's plugin labels the node for the claim's domain, which brings the daemon, and answers once the
daemon of that node is ready; until then the pod has its node and stays in ContainerCreating. It refuses while
the node carries the label of another domain. Once all claims are prepared the pod gets a mark, without which
kwok does not start it; a later change of the domain does not stop it.

Source: NVIDIA's driver v0.5, ``cmd/compute-domain-kubelet-plugin/{computedomain,device_state}.go``.
"""

from typing import Any

from localcluster.api import MERGE_PATCH, STRATEGIC_PATCH
from localcluster.standins.computedomain.actions import Action
from localcluster.standins.computedomain.values import PREPARED_MARK, Claimant, Domain, Use, View

REASON = "FailedPrepareDynamicResources"
OTHER_DOMAIN = "error adding Node label for ComputeDomain: label already exists for a different ComputeDomain"
NOT_READY = "error asserting ComputeDomain Ready: current node not ready in ComputeDomain"


def prepare(view: View) -> list[Action]:
    """Mark the pods whose claims are prepared, and report those whose are not."""
    uses = {(use.namespace, use.claim): use for use in view.uses}
    domains = {domain.uid: domain for domain in view.domains}
    labels = {machine.name: machine.domain for machine in view.machines}
    actions: list[Action] = []
    for pod in view.claimants:
        claims = [use for name in pod.claims if (use := uses.get((pod.namespace, name)))]
        if len(claims) < pod.references:
            continue
        channels = [use for use in claims if use.domain is not None]
        if all(_prepared(use, pod, domains, labels.get(pod.node)) for use in channels):
            actions.append(_start(pod))
        elif not pod.creating and (why := _refusal(channels, pod, domains, labels.get(pod.node))):
            actions.extend((_event(pod, why), _waits(pod)))
    return actions


def _prepared(use: Use, pod: Claimant, domains: dict[str, Domain], label: str | None) -> bool:
    domain = domains.get(use.domain or "")
    if domain is None or use.node != pod.node or label != domain.uid:
        return False
    return any(member.name == pod.node and member.status == "Ready" for member in domain.members)


def _refusal(claims: list[Use], pod: Claimant, domains: dict[str, Domain], label: str | None) -> str | None:
    """The plugin's error, or None while the first answer is still to come."""
    for use in claims:
        if label not in (None, use.domain):
            return OTHER_DOMAIN
        domain = domains.get(use.domain or "")
        if domain is None:
            return f"error asserting ComputeDomain's namespace: ComputeDomain not found: {use.domain}"
        if any(member.name == pod.node and member.status != "Ready" for member in domain.members):
            return NOT_READY
    return None


def _start(pod: Claimant) -> Action:
    body = {"metadata": {"uid": pod.uid, "annotations": {PREPARED_MARK: "true"}}}
    return Action("PATCH", _path(pod), body, MERGE_PATCH, "plugin")


def _waits(pod: Claimant) -> Action:
    statuses = [
        {
            "name": name,
            "image": image,
            "imageID": "",
            "ready": False,
            "started": False,
            "restartCount": 0,
            "state": {"waiting": {"reason": "ContainerCreating"}},
        }
        for name, image in pod.containers
    ]
    body = {"metadata": {"uid": pod.uid}, "status": {"containerStatuses": statuses}}
    return Action("PATCH", f"{_path(pod)}/status", body, STRATEGIC_PATCH, "plugin")


def _event(pod: Claimant, why: str) -> Action:
    text = (
        f"Failed to prepare dynamic resources: prepare dynamic resources: NodePrepareResources failed: {why}"
    )
    body: dict[str, Any] = {
        "metadata": {"namespace": pod.namespace, "generateName": f"{pod.name}."[:200]},
        "involvedObject": {
            "apiVersion": "v1",
            "kind": "Pod",
            "namespace": pod.namespace,
            "name": pod.name,
            "uid": pod.uid,
        },
        "type": "Warning",
        "reason": REASON,
        "message": text,
        "source": {"component": "kubelet", "host": pod.node},
        "count": 1,
    }
    return Action("POST", f"/api/v1/namespaces/{pod.namespace}/events", body, by="plugin")


def _path(pod: Claimant) -> str:
    return f"/api/v1/namespaces/{pod.namespace}/pods/{pod.name}"
