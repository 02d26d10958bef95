"""What a pod's spec asks for beyond resources and nodes: volumes and ConfigMaps."""

from collections.abc import Iterator, Mapping
from typing import Any

Json = Mapping[str, Any]

ROOT_CA = "kube-root-ca.crt"
"""KAI asks for it too; its publisher does not run on the local cluster."""


def volume_claims(pod: str, spec: Json) -> Iterator[str]:
    """Names of the PersistentVolumeClaims, those of ephemeral volumes included."""
    for volume in spec.get("volumes") or ():
        if claim := volume.get("persistentVolumeClaim"):
            yield claim["claimName"]
        elif "ephemeral" in volume:
            yield f"{pod}-{volume['name']}"


def config_maps(spec: Json) -> list[str]:
    """Names of the ConfigMaps that are not optional, of mounted volumes and of environments."""
    containers = [*(spec.get("initContainers") or ()), *(spec.get("containers") or ())]
    mounted = {mount["name"] for container in containers for mount in container.get("volumeMounts") or ()}
    names = {
        name for volume in spec.get("volumes") or () if volume["name"] in mounted for name in _of(volume)
    }
    for container in containers:
        for source in container.get("envFrom") or ():
            names.update(_required(source.get("configMapRef")))
        for variable in container.get("env") or ():
            names.update(_required((variable.get("valueFrom") or {}).get("configMapKeyRef")))
    return sorted(names - {ROOT_CA})


def _of(volume: Json) -> Iterator[str]:
    yield from _required(volume.get("configMap"))
    for source in (volume.get("projected") or {}).get("sources") or ():
        yield from _required(source.get("configMap"))


def _required(reference: Json | None) -> Iterator[str]:
    if reference and not reference.get("optional") and reference.get("name"):
        yield reference["name"]
