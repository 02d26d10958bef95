"""Which devices of DRA drivers a node offers under the names of resources. Pure.

A DeviceClass may name an extended resource. A pod that asks for the resource by number then gets devices of
the class on nodes that offer none by a device plugin (KEP-5004; Kubernetes 1.37
``plugins/dynamicresources/extendeddynamicresources.go`` and ``deviceclass/extendedresourcecache``). Here
devices are counted only where the count is certain: whole devices of one node, in a complete pool, of a class
whose selectors compare the driver and a few attributes with texts. Anything else is a doubt with its reason:
how many the node offers is then not known, and in particular not 0.

Rejected: evaluating CEL, which needs every attribute of every device and a library of its own.
"""

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from scheduling.kubernetes_syntax import GPU
from scheduling.nodes.channels import CHANNEL_DRIVER

SLICES = "resourceslices.resource.k8s.io"
CLASSES = "deviceclasses.resource.k8s.io"
"""Their resources."""

ATTRIBUTES = frozenset({"type", "productName", "brand", "architecture"})
"""The attributes that are kept of devices, by their names without the driver's domain."""

MOST_KINDS = 64
"""Kinds of devices that are kept of a slice; 128 devices may stand in one."""

SHARED = "several nodes may use the same devices"
DIVIDED = "its devices can be divided"
INCOMPLETE = "its driver has not published all of its devices"
MANY_KINDS = "its driver publishes too many kinds of devices"

NOT_GIVEN = "the pool's scheduler is not known to give devices of DRA drivers by number"
SHUNNED = "the pool's scheduler gives no GPUs by number on nodes whose GPUs a DRA driver offers, too"
NOT_SERVED = "not served"
"""The problem of a cluster that knows no classes: none of its devices has the name of a resource."""
UNLISTED = "the devices of DRA drivers have not been listed yet"

CLAIMS_UNKNOWN = "resource claims of other pods may use its devices"

_SLICE_FIELDS: Mapping[str, str] = {
    "driver": "",
    "pool": "",
    "nodeName": "",
    "devices": "",
    "nodeSelector": SHARED,
    "allNodes": SHARED,
    "perDeviceNodeSelection": SHARED,
    "sharedCounters": DIVIDED,
    "partitionTypeAttribute": DIVIDED,
}
_DEVICE_FIELDS: Mapping[str, str] = {
    "name": "",
    "attributes": "",
    "capacity": "",
    "consumesCounters": DIVIDED,
    "allowMultipleAllocations": "several pods may use the same device",
    "taints": "some of its devices carry taints",
    "bindsToNode": "its devices are given under conditions",
    "bindingConditions": "its devices are given under conditions",
    "bindingFailureConditions": "its devices are given under conditions",
    "nodeName": SHARED,
    "nodeSelector": SHARED,
    "allNodes": SHARED,
}
"""The fields that are understood, with the doubt that comes with each; any other field is a doubt."""

_QUOTED = r"""(?:"(?P<{0}_a>[^"'\\]*)"|'(?P<{0}_b>[^"'\\]*)')"""
_DRIVER = re.compile(r"device\.driver\s*==\s*" + _QUOTED.format("value"))
_ATTRIBUTE = re.compile(
    r"device\.attributes\[\s*" + _QUOTED.format("domain") + r"\s*\]\.(?P<name>\w+)\s*==\s*"
    + _QUOTED.format("value")
)  # fmt: skip

_CHOICE = re.compile(r"\|\||\?")
"""What makes an expression more than terms that all have to hold."""

DeviceKind = tuple[tuple[tuple[str, str], ...], int]
"""The attributes that devices share, by ``domain/name``, and how many devices they are."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SliceDevices:
    """The devices of one ResourceSlice. ``node`` is empty for those that are not one node's."""

    driver: str
    pool: str
    generation: int
    pool_slices: int
    """Of how many slices the pool consists in this generation."""

    node: str
    kinds: tuple[DeviceKind, ...] = ()
    doubt: str = ""
    """Why they cannot be counted; empty if they can."""

    @property
    def pool_key(self) -> tuple[str, str]:
        return self.driver, self.pool


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceClass:
    """A class that names an extended resource. ``created`` is as Kubernetes writes times."""

    name: str
    resource: str
    selectors: tuple[str, ...]
    created: str = ""


@dataclass(frozen=True, slots=True)
class NodeDevices:
    """The devices of DRA drivers on a node.

    ``counted`` are those that the node's allocatable amounts have by the name of a resource, ``beside`` those
    that they do not have, since a device plugin offers the resource. ``doubts`` says why it is not known how
    many it offers of others. ``drivers`` counts all devices by driver.
    """

    counted: Mapping[str, int] = field(default_factory=dict)
    doubts: Mapping[str, str] = field(default_factory=dict)
    drivers: Mapping[str, int] = field(default_factory=dict)
    beside: Mapping[str, int] = field(default_factory=dict)

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> "NodeDevices":
        return cls(*(value.get(name) or {} for name in ("counted", "doubts", "drivers", "beside")))

    @property
    def unnamed(self) -> dict[str, int]:
        """The devices by driver, but for NVLink channels, where no class gives them as GPUs."""
        if GPU in {*self.counted, *self.doubts, *self.beside}:
            return {}
        return {driver: count for driver, count in self.drivers.items() if driver != CHANNEL_DRIVER}

    def gpu_note(self, gpus: int, doubt: str) -> str:
        """What this number of GPUs leaves out; empty for nothing."""
        if doubt:
            return f"GPUs not known: {doubt}"
        unnamed = {} if gpus else self.unnamed
        listed = ", ".join(f"{count} devices of {driver}" for driver, count in sorted(unnamed.items()))
        return f"{listed} by resource claims alone" if listed else ""

    def as_json(self) -> dict[str, Any]:
        """Empty for no devices."""
        fields = {name: getattr(self, name) for name in ("counted", "doubts", "drivers", "beside")}
        return {name: dict(values) for name, values in fields.items() if values}


NO_DEVICES = NodeDevices()


@dataclass(frozen=True, slots=True)
class DeviceRule:
    """How a scheduler counts the devices of a cluster.

    ``gives_devices`` and ``shuns_drivers`` are as in ``SchedulerTraits``; ``problem`` is why slices or
    classes are not known, empty if they are.
    """

    gives_devices: bool
    shuns_drivers: str
    problem: str = ""

    def doubt(self, devices: NodeDevices, resource: str, *, offered: int) -> str:
        """Why it is not known how much the scheduler gives of a resource of which a node has this much."""
        if resource in devices.counted:
            return self.problem if self.gives_devices else NOT_GIVEN
        if offered:
            return SHUNNED if resource == GPU and self._shuns(devices) else ""
        return devices.doubts.get(resource, "") or (self.problem if self.gives_devices else "")

    def gpus(self, devices: NodeDevices, *, offered: int) -> tuple[int, str]:
        """How many GPUs the scheduler gives of a node that offers this many, and why that is not known."""
        doubt = self.doubt(devices, GPU, offered=offered)
        return (0 if doubt == NOT_GIVEN else offered), doubt

    def _shuns(self, devices: NodeDevices) -> bool:
        return bool(self.shuns_drivers) and any(self.shuns_drivers in name for name in devices.drivers)


def read_slice(spec: Mapping[str, Any]) -> SliceDevices:
    """Reduce a slice to what is counted of it."""
    driver, pool = str(spec.get("driver") or ""), spec.get("pool") or {}
    doubts = list(_doubts(spec, _SLICE_FIELDS))
    kinds: Counter[tuple[tuple[str, str], ...]] = Counter()
    for device in spec.get("devices") or ():
        doubts += _doubts(device, _DEVICE_FIELDS)
        kinds[_attributes(device, driver)] += 1
    if len(kinds) > MOST_KINDS:
        doubts, kinds = [MANY_KINDS], Counter({(): kinds.total()})
    return SliceDevices(
        driver=driver,
        pool=str(pool.get("name") or ""),
        generation=int(pool.get("generation") or 0),
        pool_slices=int(pool.get("resourceSliceCount") or 0),
        node=str(spec.get("nodeName") or ""),
        kinds=tuple(sorted(kinds.items())),
        doubt=doubts[0] if doubts else "",
    )


def _doubts(obj: Mapping[str, Any], fields: Mapping[str, str]) -> Iterator[str]:
    for name, value in obj.items():
        if value and (doubt := fields.get(name, f"its devices have a field {name}, which is not read")):
            yield doubt


def _attributes(device: Mapping[str, Any], driver: str) -> tuple[tuple[str, str], ...]:
    texts = []
    for name, value in (device.get("attributes") or {}).items():
        domain, slash, plain = name.rpartition("/")
        if plain in ATTRIBUTES and isinstance(value, Mapping) and isinstance(value.get("string"), str):
            texts.append((f"{domain if slash else driver}/{plain}", value["string"]))
    return tuple(sorted(texts))


def read_class(obj: Mapping[str, Any]) -> DeviceClass | None:
    """Reduce a DeviceClass; None for one that names no resource."""
    spec, metadata = obj.get("spec") or {}, obj["metadata"]
    if not spec.get("extendedResourceName"):
        return None
    return DeviceClass(
        name=str(metadata["name"]),
        resource=str(spec["extendedResourceName"]),
        selectors=tuple(
            str((selector.get("cel") or {}).get("expression") or "")
            for selector in spec.get("selectors") or ()
        ),
        created=str(metadata.get("creationTimestamp") or ""),
    )


def class_of_each(classes: Iterable[DeviceClass]) -> dict[str, DeviceClass]:
    """The class behind each resource: of several the newest, of equally old ones the first by name."""
    by_resource: dict[str, DeviceClass] = {}
    for entry in sorted(classes, key=lambda entry: entry.name, reverse=True):
        other = by_resource.get(entry.resource)
        if other is None or entry.created >= other.created:
            by_resource[entry.resource] = entry
    return by_resource


def devices_of(
    slices: Sequence[SliceDevices],
    *,
    pools: Mapping[tuple[str, str], tuple[int, int]],
    classes: Iterable[DeviceClass],
) -> NodeDevices:
    """What a node offers by its slices and those that are not one node's.

    ``pools`` has the newest generation of each pool, and how many slices of it are there.
    """
    present = [piece for piece in slices if piece.generation == pools[piece.pool_key][0]]
    drivers: dict[str, int] = defaultdict(int)
    for piece in present:
        if piece.node and piece.kinds:
            drivers[piece.driver] += sum(count for _, count in piece.kinds)
    sizes: dict[tuple[str, str], int] = {}
    for piece in present:
        sizes[piece.pool_key] = max(piece.pool_slices, sizes.get(piece.pool_key, 0))
    partial = {
        piece.driver
        for piece in slices
        if piece.pool_key not in sizes or pools[piece.pool_key][1] < sizes[piece.pool_key]
    }  # of these pools the newest generation has not come whole, or not at all
    counted, doubts = {}, {}
    for resource, entry in class_of_each(classes).items():
        count, doubt = 0, ""
        for piece in present:
            number, own = _matching(piece, entry)
            count, doubt = count + number, doubt or own
        if any(_selects(entry, driver, {}) is not False for driver in partial):
            doubt = doubt or INCOMPLETE
        if doubt:
            doubts[resource] = doubt
        elif count:
            counted[resource] = count
    return NodeDevices(counted, doubts, dict(drivers))


def _matching(piece: SliceDevices, entry: DeviceClass) -> tuple[int, str]:
    """How many devices of a slice the class selects, or why that is not known."""
    count, doubt = 0, ""
    for attributes, number in piece.kinds:
        match _selects(entry, piece.driver, dict(attributes)):
            case None:
                doubt = f'DeviceClass "{entry.name}" selects devices by an expression that is not evaluated'
            case True:
                count += number
    if not count and not doubt:
        return 0, ""
    if piece.doubt or not piece.node:
        return 0, piece.doubt or SHARED
    return (0, doubt) if doubt else (count, "")


def _selects(entry: DeviceClass, driver: str, attributes: Mapping[str, str]) -> bool | None:
    """Whether the class selects such devices; None where that is not known."""
    answer: bool | None = True
    for selector in entry.selectors:
        if _CHOICE.search(selector):
            answer = None
            continue
        for term in selector.split("&&"):
            match _holds(term.strip(), driver, attributes):
                case False:
                    return False
                case None:
                    answer = None
    return answer


def _holds(term: str, driver: str, attributes: Mapping[str, str]) -> bool | None:
    if match := _DRIVER.fullmatch(term):
        return _text(match, "value") == driver
    if (match := _ATTRIBUTE.fullmatch(term)) and match["name"] in ATTRIBUTES:
        value = attributes.get(f"{_text(match, 'domain')}/{match['name']}")
        return None if value is None else value == _text(match, "value")
    return None


def _text(match: re.Match[str], name: str) -> str:
    return str(match[f"{name}_a"] if match[f"{name}_b"] is None else match[f"{name}_b"])
