"""One group's objects in its cluster, read live and by label: for creating and for taking down.

Following uses the observer's rows instead. Here an old view could lead to a second create, or to a release
while objects are left. An object counts as the group's only if its labels say so.
"""

from collections.abc import Collection, Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from uuid import UUID

from cluster.errors import NotServed
from cluster.interface import Obj
from cluster.kinds import (
    COMPUTE_DOMAIN,
    POD,
    RESOURCE_CLAIM,
    RESOURCE_CLAIM_TEMPLATE,
    SECRET,
    SERVICE,
    Kind,
)
from pools.clusters import kinds
from scheduling import names
from scheduling.backends.base import BindFailure
from scheduling.backends.registry import scheduler_backend
from scheduling.sentences import count_of
from scheduling.topology.levels import HOSTNAME_LABEL
from workflows.reconcile.view.leased import LeasedCluster
from workflows.values.observation import DOMAIN_LABEL, PodSeen, see_pod
from workflows.values.placement import GroupPlacement


@dataclass(frozen=True, slots=True)
class LiveObject:
    """An object of the group. ``deleting`` says that its deletion has begun; ``node`` is a pod's.

    ``assigned`` is the node that a pod was made for, by its label kubernetes.io/hostname.
    """

    name: str
    uid: str
    deleting: bool
    node: str = ""
    assigned: str = ""


ObjectsByName = Mapping[str, LiveObject]


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveGroup:
    """A group's objects by name. ``template`` is the claim template of its ComputeDomain.

    ``parents`` stand above the pod groups, by kind in order of creation.
    """

    secrets: ObjectsByName = field(default_factory=dict)
    domains: ObjectsByName = field(default_factory=dict)
    template: LiveObject | None = None
    topologies: frozenset[str] = frozenset()
    pod_groups: ObjectsByName = field(default_factory=dict)
    parents: Mapping[Kind, ObjectsByName] = field(default_factory=dict)
    services: ObjectsByName = field(default_factory=dict)
    pods: ObjectsByName = field(default_factory=dict)


def pod_group_kind(placement: GroupPlacement) -> Kind | None:
    """The kind of the group's pod groups; None for a scheduler that has none."""
    return kinds.pod_group_kind(scheduler_backend(placement.terms.scheduler_type))


def parent_kinds(placement: GroupPlacement) -> tuple[Kind, ...]:
    """The kinds of what may stand above its pod groups, in order of creation."""
    return kinds.parent_kinds(placement.terms.scheduler_type, placement.terms.scheduler_version)


def owner_labels(group: UUID, placement: GroupPlacement) -> dict[str, str]:
    """The labels that make an object the group's."""
    return {names.INSTALLATION_LABEL: placement.terms.installation.hex, names.GROUP_LABEL: group.hex}


def selector(group: UUID, placement: GroupPlacement) -> str:
    return ",".join(f"{label}={value}" for label, value in owner_labels(group, placement).items())


class GroupReader:
    """Reads one group's objects.

    Under its lease only this reconciliation makes any but a claim template. So a kind of which the group has
    none is read again only after a write.
    """

    def __init__(self, cluster: LeasedCluster, group: UUID, placement: GroupPlacement) -> None:
        self._cluster = cluster
        self._group = group
        self._placement = placement
        self._namespace = placement.terms.namespace
        self._names: dict[Kind, frozenset[str]] = {}  # of the group's objects of a kind, as last read

    def note_untouched(self) -> None:
        """Note that it has no object, as its row says (``services.adoption`` sees to restored rows)."""
        kinds = (SECRET, COMPUTE_DOMAIN, SERVICE, POD, *parent_kinds(self._placement))
        self._names = dict.fromkeys(filter(None, (*kinds, pod_group_kind(self._placement))), frozenset())

    def note_created(self, kinds: Iterable[Kind]) -> None:
        """Note that there may be objects of these kinds."""
        for kind in kinds:
            self._names.pop(kind, None)

    def note_removed(self, removed: Mapping[Kind, Collection[str]]) -> None:
        """Note that objects of which the names were read are gone."""
        for kind, gone in removed.items():
            if kind in self._names:
                self._names[kind] -= frozenset(gone)

    def before_create(self, topologies: Sequence[Obj]) -> LiveGroup:
        """All objects that creating depends on."""
        domains = self._of(COMPUTE_DOMAIN) if self._placement.nvlink else {}
        return LiveGroup(
            secrets=self._of(SECRET),
            domains=domains,
            template=self._template(domains),
            topologies=self.topologies(topologies),
            pod_groups=self.pod_groups(),
            parents={kind: self._of(kind) for kind in parent_kinds(self._placement)},
            services=self._of(SERVICE),
            pods=self.pods(),
        )

    def topologies(self, desired: Sequence[Obj]) -> frozenset[str]:
        """The names of those that exist."""
        named = {str(manifest["metadata"]["name"]): kinds.kind_of(manifest) for manifest in desired}
        return frozenset(name for name, kind in named.items() if self._cluster.get(kind, name) is not None)

    def pods(self) -> ObjectsByName:
        return self._of(POD)

    def pod_observations(self) -> Mapping[str, PodSeen]:
        """The pods as the observer reports them."""
        pods = self._cluster.scan(POD, see_pod, namespace=self._namespace, label_selector=self._selector())
        return {pod.name: pod for pod in pods if pod is not None}

    def pod_labels(self) -> Mapping[str, Mapping[str, str]]:
        """The labels of each pod that is not being deleted."""
        pods = self._cluster.scan(
            POD,
            _labels,
            namespace=self._namespace,
            label_selector=self._selector(),
            metadata_only=True,
        )
        return dict(filter(None, pods))

    def bind_requests(self, kind: Kind) -> frozenset[str]:
        """The pods of the namespace that a binder is to bind; none if the kind is not served."""
        try:
            pods = self._cluster.scan(kind, _pod_to_bind, namespace=self._namespace)
            return frozenset(filter(None, pods))
        except NotServed:
            return frozenset()

    def bind_failures(self, kind: Kind, pods: Container[str], *, before: str) -> tuple[BindFailure, ...]:
        """What binders report of these pods, or that requests from ``before`` have no answer; each once.

        ``since`` is when the scheduler made the request, which it does once it has chosen a node.
        """
        failures = self._cluster.scan(kind, partial(_bind_failure, before=before), namespace=self._namespace)
        return tuple(dict.fromkeys(failure for pod, failure in filter(None, failures) if pod in pods))

    def remaining_objects(self) -> LiveGroup:
        """All objects that are deleted after the pods. A kind that is no longer served has none."""
        domains = self._if_served(COMPUTE_DOMAIN) if self._placement.nvlink else {}
        return LiveGroup(
            secrets=self._of(SECRET),
            domains=domains,
            template=self._any_template(domains) if self._placement.nvlink else None,
            pod_groups=self.pod_groups(gone_if_unserved=True),
            parents={kind: self._if_served(kind) for kind in parent_kinds(self._placement)},
            services=self._of(SERVICE),
        )

    def claims(self, pods: frozenset[str], *, claim_names: Sequence[str] | None) -> tuple[str, ...]:
        """Claims of these pods that still exist.

        ``claim_names``: None if they are not all known, so that the whole namespace is listed. Claims
        have no label of the group: NVIDIA's controller puts none into its template.
        """
        if claim_names is None:
            owned = partial(_owned, pods=pods)
            claims = self._cluster.scan(RESOURCE_CLAIM, owned, namespace=self._namespace, metadata_only=True)
            return tuple(name for name in claims if name)
        live = (self._cluster.get(RESOURCE_CLAIM, name, namespace=self._namespace) for name in claim_names)
        return tuple(name for obj in live if obj is not None and (name := _owned(obj, pods)))

    def domain(self) -> LiveObject | None:
        """The group's ComputeDomain, of any attempt and whoever made it with the group's labels."""
        return self._if_served(COMPUTE_DOMAIN).get(names.compute_domain(self._group))

    def lacks_domain(self, uid: str) -> bool:
        """Whether the group's ComputeDomain is gone, being deleted, or another than the one of this uid.

        Without a uid, which is not observed yet, any of its name counts.
        """
        domain = self.domain()
        return domain is None or domain.deleting or bool(uid and domain.uid != uid)

    def _template(self, domains: ObjectsByName) -> LiveObject | None:
        """The template, if it exists and belongs to the present ComputeDomain."""
        domain = domains.get(names.compute_domain(self._group))
        name = names.claim_template(self._group)
        if domain is None:
            return None
        obj = self._cluster.get(RESOURCE_CLAIM_TEMPLATE, name, namespace=self._namespace)
        if obj is None or (obj["metadata"].get("labels") or {}).get(DOMAIN_LABEL) != domain.uid:
            return None
        return _live_object(obj)

    def _any_template(self, domains: ObjectsByName) -> LiveObject | None:
        """The template that any ComputeDomain of our name left; one that none created is not waited for.

        Nor is that of a stranger's ComputeDomain, which has our name and none of our labels.
        """
        name = names.claim_template(self._group)
        obj = self._cluster.get(RESOURCE_CLAIM_TEMPLATE, name, namespace=self._namespace)
        uid = (obj["metadata"].get("labels") or {}).get(DOMAIN_LABEL) if obj is not None else None
        if obj is None or uid is None:
            return None
        is_own = any(uid == domain.uid for domain in domains.values())
        return _live_object(obj) if is_own or uid != self._stranger() else None

    def domain_by_name(self) -> Obj | None:
        """The ComputeDomain that has the group's name, whoever made it."""
        name = names.compute_domain(self._group)
        return self._cluster.get(COMPUTE_DOMAIN, name, namespace=self._namespace)

    def _stranger(self) -> str | None:
        """The uid of a ComputeDomain that has the group's name and not both of its labels."""
        try:
            obj = self.domain_by_name()
        except NotServed:
            return None
        labels = obj["metadata"].get("labels") or {} if obj is not None else {}
        own = owner_labels(self._group, self._placement)
        is_ours = all(labels.get(label) == value for label, value in own.items())
        return None if obj is None or is_ours else str(obj["metadata"]["uid"])

    def pod_groups(self, *, gone_if_unserved: bool = False) -> ObjectsByName:
        kind = pod_group_kind(self._placement)
        if kind is None:
            return {}
        return self._if_served(kind) if gone_if_unserved else self._of(kind)

    def _if_served(self, kind: Kind) -> ObjectsByName:
        try:
            return self._of(kind)
        except NotServed:
            if self._cluster.serves(kind):
                raise
            return {}  # its definition was removed, and all objects went with it

    def _of(self, kind: Kind) -> ObjectsByName:
        """The group's objects of a kind; of a pod its nodes count, too."""
        if kind in self._names and not self._names[kind]:
            return {}
        objs = self._cluster.scan(
            kind,
            _live_object,
            namespace=self._namespace,
            label_selector=self._selector(),
            metadata_only=kind != POD,
        )
        by_name = {obj.name: obj for obj in objs}
        self._names[kind] = frozenset(by_name)
        return by_name

    def _selector(self) -> str:
        return selector(self._group, self._placement)


def _owned(claim: Obj, pods: frozenset[str]) -> str:
    """The name of a claim that one of these pods owns; empty for another."""
    owners = claim["metadata"].get("ownerReferences") or ()
    is_owned = any(owner.get("kind") == "Pod" and owner.get("name") in pods for owner in owners)
    return str(claim["metadata"]["name"]) if is_owned else ""


def _live_object(obj: Obj) -> LiveObject:
    metadata, spec = obj["metadata"], obj.get("spec") or {}
    deleting = "deletionTimestamp" in metadata
    return LiveObject(
        str(metadata["name"]),
        str(metadata["uid"]),
        deleting,
        node=str(spec.get("nodeName") or ""),
        assigned=str((spec.get("nodeSelector") or {}).get(HOSTNAME_LABEL) or ""),
    )


def _labels(pod: Obj) -> tuple[str, Mapping[str, str]] | None:
    metadata = pod["metadata"]
    return None if "deletionTimestamp" in metadata else (metadata["name"], metadata.get("labels") or {})


def _bind_failure(request: Obj, *, before: str) -> tuple[str, BindFailure] | None:
    """The pod of a request that failed, or that no binder has answered, and why it is not bound."""
    spec, status = request.get("spec") or {}, request.get("status") or {}
    pod, since = str(spec.get("podName", "")), str(request["metadata"].get("creationTimestamp") or "")
    if status.get("phase") == "Failed":
        attempts = count_of(int(status.get("failedAttempts") or 0), "failed attempt")
        return pod, BindFailure(f"{status.get('reason') or 'no reason is given'} ({attempts})", since)
    is_old = bool(since) and since < before and not status.get("phase")
    return (pod, BindFailure("no binder has answered the BindRequest", since)) if is_old else None


def _pod_to_bind(request: Obj) -> str:
    """The pod of a request; empty if the binder has given up (KAI ``bindrequest_info``: IsFailed)."""
    spec, status = request.get("spec") or {}, request.get("status") or {}
    limit = spec.get("backoffLimit")
    given_up = status.get("phase") == "Failed" and (limit is None or status.get("failedAttempts", 0) >= limit)
    return "" if given_up else str(spec.get("podName", ""))
