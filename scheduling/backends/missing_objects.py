"""Objects that a pod names and that do not exist, read from the texts of those who look for them. Pure.

The API server refuses a pod whose priority class, service account or runtime class it does not find; the
scheduler waits for a volume claim or a resource claim, and the controller of claims reports a template in an
event; a kubelet starts no container without its Secrets and ConfigMaps. Every text is one of Kubernetes
1.37: ``plugin/pkg/admission/{priority,serviceaccount,runtimeclass}``, ``pkg/scheduler`` with its plugins
VolumeBinding and DynamicResources, ``pkg/controller/resourceclaim``, ``pkg/kubelet``, ``pkg/volume``; those
of KAI come from the same plugins.

Objects of the service itself are left out by their names: that one is missing is no mistake of its users.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace

from scheduling import names
from scheduling.sentences import agree, plain_listing

MOST_NAMED = 3
NOT_CREATED = "ResourceClaim not created yet"
"""The scheduler's text on a pod whose claim its template has not given yet."""

_OF_SERVICE = re.compile(rf"{names.OWN_PREFIX}|[0-9a-f]{{32}}(?:-|$)")
_NAME = r'"?(?P<name>[a-z0-9][-a-z0-9.]*)"?'
_QUOTED = r'"(?P<name>[^"]+)"'
_PATTERNS: tuple[tuple[str, str], ...] = (
    ("PriorityClass", r"no PriorityClass with name (?P<name>\S+) was found"),
    (
        "ServiceAccount",
        rf"error looking up service account [^/\s]+/\S+: serviceaccounts? {_QUOTED} not found",
    ),
    ("RuntimeClass", rf"RuntimeClass {_QUOTED} not found"),
    ("PersistentVolumeClaim", rf"persistentvolumeclaims? {_NAME} not found"),
    ("ResourceClaimTemplate", rf"resourceclaimtemplates?(?:\.resource\.k8s\.io)? {_QUOTED} not found"),
    ("ResourceClaim", r'could not find (?:v1\.)?ResourceClaim "(?:[^/"]+/)?(?P<name>[^"]+)"'),
    ("ResourceClaim", rf"resourceclaims?(?:\.resource\.k8s\.io)? {_QUOTED} not found"),
    ("Secret", rf"\bsecrets? {_QUOTED} not found"),
    ("Secret", r"couldn't find key (?P<key>\S+) in Secret [^/\s]+/(?P<name>[-a-z0-9.]*[-a-z0-9])"),
    ("ConfigMap", rf"\bconfigmaps? {_QUOTED} not found"),
    ("ConfigMap", r"couldn't find key (?P<key>\S+) in ConfigMap [^/\s]+/(?P<name>[-a-z0-9.]*[-a-z0-9])"),
    ("ConfigMap", rf"Missing required configmaps: \[{_NAME}"),
)
TEXTS = tuple((kind, re.compile(pattern)) for kind, pattern in _PATTERNS)
"""The kind that is missing, and the text that says so."""

_OF_CLUSTER = frozenset({"PriorityClass", "RuntimeClass"})


@dataclass(frozen=True, slots=True)
class MissingObject:
    """An object that pods name. ``key`` is the one that it lacks, where it is there; else empty.

    ``credential`` is the user's own name of a Secret that is the user's.
    """

    kind: str
    name: str
    key: str = ""
    credential: str = ""

    @property
    def words(self) -> str:
        named = f'{self.kind} "{self.name}"'
        if self.credential:
            named = f'credential "{self.credential}" (Secret "{self.name}")'
        return f'key "{self.key}" of {named}' if self.key else named

    def as_json(self) -> dict[str, str]:
        return asdict(self)


def missing_objects(texts: Iterable[str], *, credential_prefix: str = "") -> tuple[MissingObject, ...]:
    """The objects that texts report as missing, each once, in order.

    Secrets with this prefix, if it is not empty, are the user's own.
    """
    objects = dict.fromkeys(obj for text in texts for obj in _read(text))
    return tuple(
        replace(obj, credential=obj.name.removeprefix(credential_prefix))
        if credential_prefix and obj.kind == "Secret" and obj.name.startswith(credential_prefix)
        else obj
        for obj in objects
    )


def _read(text: str) -> Iterator[MissingObject]:
    for kind, pattern in TEXTS:
        for match in pattern.finditer(text):
            fields = match.groupdict()
            if not _OF_SERVICE.match(fields["name"]):
                yield MissingObject(kind, fields["name"], fields.get("key") or "")


def missing_sentence(objects: Sequence[MissingObject], *, namespace: str) -> str:
    """Name what is missing, and where."""
    of_cluster = all(obj.kind in _OF_CLUSTER for obj in objects)
    place = "the cluster" if of_cluster else f'namespace "{namespace}"'
    listed = plain_listing([obj.words for obj in objects], limit=MOST_NAMED)
    return f"Its pods name {listed}, which {agree(len(objects), 'does', 'do')} not exist in {place}."
