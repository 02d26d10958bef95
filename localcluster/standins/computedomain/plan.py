"""What to do next, as a pure function of what is there.

Deletion goes step by step, as in the original: the workload's template, then the daemons' template and
DaemonSet, are deleted; node labels go; then finalizers come off the workload's template, off the daemons'
objects, and last off the ComputeDomain, each once the step before is seen done. No step looks at pods. A name
already taken by a foreign template is tried again and again, and fails each time (the caller logs it).

Leftovers of domains that no longer exist are swept only when asked: the original does so every ten minutes
and whenever a domain is created.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any

from localcluster.api import MERGE_PATCH
from localcluster.standins.computedomain import kubelet, objects
from localcluster.standins.computedomain.actions import DOMAINS, Action, Client
from localcluster.standins.computedomain.values import (
    DRIVER,
    FINALIZER,
    LABEL,
    Domain,
    Machine,
    Member,
    Owned,
    Use,
    View,
)

YAML = "application/yaml"
"""How objects are created. The API server keeps opaque parameters byte by byte, and calls a later patch of
the finalizers a change of an immutable spec if they are not as it would write them; YAML it rewrites."""


@dataclass(frozen=True, slots=True)
class Faults:
    """Switches that make the stand-in fail as real ones were seen to."""

    stuck_finalizer: bool = False
    """The ComputeDomain's own finalizer never comes off."""
    absent_template: bool = False
    """The workload's claim template is never made."""
    restore_after: float = 0.0
    """Seconds until a template that was removed by hand is made again; a mark on the domain wins."""
    dns_names: bool = True
    """The driver's gate IMEXDaemonsWithDNSNames. Without it daemons start once they are ``numNodes``."""


def plan(view: View, *, sweep: bool = False, faults: Faults | None = None) -> tuple[Action, ...]:
    """Return the actions that can be taken now; later ones follow once these are seen done."""
    faults = faults or Faults()
    actions: list[Action] = []
    for domain, part in _parts(view):
        if domain.deleting:
            actions.extend(_tear_down(domain, part, faults))
        else:
            actions.extend(_build(domain, part, faults))
    actions.extend(_slices(view))
    actions.extend(kubelet.prepare(view))
    if sweep:
        actions.extend(_sweep(view))
    return tuple(actions)


def _parts(view: View) -> Iterator[tuple[Domain, View]]:
    """Each domain with its own objects, claims and nodes; the whole is walked through once."""
    owned: dict[str | None, list[Owned]] = {}
    for obj in view.owned:
        owned.setdefault(obj.domain, []).append(obj)
    uses: dict[str | None, list[Use]] = {}
    for use in view.uses:
        uses.setdefault(use.domain, []).append(use)
    by_name = {machine.name: machine for machine in view.machines}
    labelled: dict[str | None, list[str]] = {}
    for machine in view.machines:
        labelled.setdefault(machine.domain, []).append(machine.name)
    for domain in view.domains:
        claims = uses.get(domain.uid, ())
        names = {use.node for use in claims if use.node in by_name} | set(labelled.get(domain.uid, ()))
        machines = tuple(machine for name, machine in by_name.items() if name in names) if names else ()
        objects_of = tuple(owned.get(domain.uid, ()))
        yield domain, replace(view, owned=objects_of, uses=tuple(claims), machines=machines)


def _build(domain: Domain, view: View, faults: Faults) -> list[Action]:
    if not domain.finalized:
        finalizers = [*domain.finalizers, FINALIZER]
        return [_patch(_domain_path(domain), {"metadata": {"uid": domain.uid, "finalizers": finalizers}})]
    owned = [obj for obj in view.owned if obj.domain == domain.uid]
    daemon = objects.daemon_name(domain.uid)
    actions: list[Action] = []
    if not any(obj.name == daemon and obj.kind == "ResourceClaimTemplate" for obj in owned):
        actions.append(_create(objects.daemon_template(domain)))
    if not any(obj.kind == "DaemonSet" for obj in owned):
        actions.append(_create(objects.daemon_set(domain)))
    if not any(is_workload(obj) for obj in owned) and _may_make(domain, view, faults):
        actions.append(_create(objects.workload_template(domain)))
    return actions + _labels(domain, view) + _status(domain, view, faults)


def _may_make(domain: Domain, view: View, faults: Faults) -> bool:
    """A first template is made at once; one that was removed only when the domain is looked at again."""
    wait = faults.restore_after if domain.restore_after is None else domain.restore_after
    return not faults.absent_template and view.missing.get(domain.uid, wait) >= wait


def is_workload(owned: Owned) -> bool:
    """Whether it is the template of a domain's workload, not one of its daemons' objects."""
    return owned.kind == "ResourceClaimTemplate" and owned.name != objects.daemon_name(owned.domain or "")


def _serving(domain: Domain, view: View) -> list[Machine]:
    """Nodes where a claim of the domain is in use, and which carry no label of another one, living or not."""
    used = {use.node for use in view.uses if use.domain == domain.uid}
    return [
        machine
        for machine in sorted(view.machines, key=lambda machine: machine.name)
        if machine.name in used and machine.domain in (None, domain.uid)
    ]


def _labels(domain: Domain, view: View) -> list[Action]:
    """Label nodes whose plugin prepares a claim of the domain, unlabel those where none is left."""
    serving = {machine.name for machine in _serving(domain, view)}
    actions = [
        _label(machine, domain.uid, by="plugin")
        for machine in view.machines
        if machine.name in serving and machine.domain != domain.uid
    ]
    return actions + [
        _label(machine, None, by="plugin")
        for machine in view.machines
        if machine.domain == domain.uid and machine.name not in serving
    ]


def _status(domain: Domain, view: View, faults: Faults) -> list[Action]:
    members = _members(domain, _serving(domain, view), faults)
    missing = len(members) < domain.num_nodes
    status = "NotReady" if missing or any(member.status != "Ready" for member in members) else "Ready"
    if status == domain.status and members == domain.members:
        return []
    nodes = [
        {
            "name": member.name,
            "ipAddress": member.address,
            "cliqueID": member.clique,
            "index": member.index,
            "status": member.status,
        }
        for member in members
    ]
    body = {"metadata": {"uid": domain.uid}, "status": {"status": status, "nodes": nodes}}
    return [_patch(f"{_domain_path(domain)}/status", body)]


def _members(domain: Domain, machines: Iterable[Machine], faults: Faults) -> tuple[Member, ...]:
    """Entries in the order of names; a node keeps its index, a new one gets the lowest free of its clique.

    A node whose daemon is gone has no entry. Without DNS names a daemon learns its peers only while they are
    exactly ``numNodes``, and is not ready before; a node without clique runs none and is.
    """
    machines = tuple(machine for machine in machines if machine.daemon != "absent")
    complete = faults.dns_names or len(machines) == domain.num_nodes
    names = {machine.name for machine in machines}
    remaining = {member.name: member for member in domain.members if member.name in names}
    used_indices = {(member.clique, member.index) for member in remaining.values()}
    members: list[Member] = []
    for machine in machines:
        old = remaining.get(machine.name)
        index = -1
        if machine.clique:
            index = old.index if old and old.clique == machine.clique else 0
            while not (old and old.index == index) and (machine.clique, index) in used_indices:
                index += 1
            used_indices.add((machine.clique, index))
        up = machine.daemon == "ready" and (complete or not machine.clique)
        status = "Ready" if up else "NotReady"
        members.append(Member(machine.name, machine.address, machine.clique, index, status))
    return tuple(members)


def _tear_down(domain: Domain, view: View, faults: Faults) -> list[Action]:
    """Return the first step that still has something to do, or nothing while one is under way."""
    if not domain.finalized:
        return []
    owned = [obj for obj in view.owned if obj.domain == domain.uid]
    workload = [obj for obj in owned if is_workload(obj)]
    daemons = [obj for obj in owned if not is_workload(obj)]
    for group in (workload, daemons):
        if alive := [obj for obj in group if not obj.deleting]:
            return [Action("DELETE", _owned_path(obj)) for obj in alive]
    if labelled := [machine for machine in view.machines if machine.domain == domain.uid]:
        return [_label(machine, None) for machine in labelled]
    for group in (workload, daemons):
        if group:
            finalized = [obj for obj in group if FINALIZER in obj.finalizers]
            return [_unfinalize(_owned_path(obj), obj.finalizers) for obj in finalized]
    if faults.stuck_finalizer:
        return []
    return [_unfinalize(_domain_path(domain), domain.finalizers)]


def _slices(view: View) -> list[Action]:
    """Publish the devices of NVLink nodes, withdraw those of nodes that are none any more."""
    slices = {piece.node: piece for piece in view.slices if piece.driver == DRIVER}
    nvlink = {machine.name for machine in view.machines if machine.nvlink}
    actions = [
        replace(_create(objects.resource_slice(machine)), by="plugin")
        for machine in view.machines
        if machine.nvlink and machine.name not in slices
    ]
    stale = [piece for node, piece in slices.items() if node not in nvlink]
    slices_path = f"{objects.RESOURCES}/resourceslices"
    return actions + [Action("DELETE", f"{slices_path}/{piece.name}", by="plugin") for piece in stale]


def _sweep(view: View) -> list[Action]:
    """Remove what belongs to domains that do not exist."""
    living = {domain.uid for domain in view.domains}
    actions = [
        _label(machine, None) for machine in view.machines if machine.domain and machine.domain not in living
    ]
    for obj in view.owned:
        if obj.domain is None or obj.domain in living:
            continue
        if not obj.deleting:
            actions.append(Action("DELETE", _owned_path(obj)))
        if FINALIZER in obj.finalizers:
            actions.append(_unfinalize(_owned_path(obj), obj.finalizers))
    return actions


def _create(body: dict[str, Any]) -> Action:
    collections = {
        "ResourceClaimTemplate": f"{objects.RESOURCES}/namespaces/{{}}/resourceclaimtemplates",
        "DaemonSet": "/apis/apps/v1/namespaces/{}/daemonsets",
        "ResourceSlice": f"{objects.RESOURCES}/resourceslices",
    }
    path = collections[body["kind"]].format(body["metadata"].get("namespace"))
    return Action("POST", path, body, YAML)


def _patch(path: str, body: dict[str, Any]) -> Action:
    return Action("PATCH", path, body, MERGE_PATCH)


def _label(machine: Machine, uid: str | None, *, by: Client = "controller") -> Action:
    body = {"metadata": {"labels": {LABEL: uid}}}
    return Action("PATCH", f"/api/v1/nodes/{machine.name}", body, MERGE_PATCH, by)


def _unfinalize(path: str, finalizers: Iterable[str]) -> Action:
    return _patch(
        path, {"metadata": {"finalizers": [finalizer for finalizer in finalizers if finalizer != FINALIZER]}}
    )


def _domain_path(domain: Domain) -> str:
    return f"{DOMAINS}/namespaces/{domain.namespace}/computedomains/{domain.name}"


def _owned_path(owned: Owned) -> str:
    group = "/apis/apps/v1" if owned.kind == "DaemonSet" else objects.RESOURCES
    plural = "daemonsets" if owned.kind == "DaemonSet" else "resourceclaimtemplates"
    return f"{group}/namespaces/{owned.namespace}/{plural}/{owned.name}"
