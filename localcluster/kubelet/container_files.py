"""A pod's volumes as directories, a container's mounts below a root of its own, and its variables."""

import re
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from localcluster.api import Json
from localcluster.kubelet.cluster import Cluster, NotThere

SHIM = Path(__file__).with_name("shim")
ROOT = "OSMO_KUBELET_ROOT"
_REFERENCE = re.compile(r"\$\$|\$\(([A-Za-z0-9_.-]+)\)")


async def fill_volumes(cluster: Cluster, pod: Json, directory: Path) -> None:
    """Make every volume of a pod. Raises NotThere while something that it needs is not there."""
    for volume in pod["spec"].get("volumes") or []:
        folder = directory / volume["name"]
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        for path, content in (await _content(cluster, pod, volume)).items():
            target = folder / path
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(content)


async def _content(cluster: Cluster, pod: Json, source: Json) -> dict[str, bytes]:
    namespace = pod["metadata"]["namespace"]
    if "emptyDir" in source:
        return {}
    if "configMap" in source:
        return await _chosen(cluster, "ConfigMap", namespace, source["configMap"])
    if "secret" in source:
        own = source["secret"]
        return await _chosen(cluster, "Secret", namespace, {"name": own.get("secretName"), **own})
    if "serviceAccountToken" in source:
        own = source["serviceAccountToken"]
        return {own["path"]: (await cluster.token(pod, own)).encode()}
    if "downwardAPI" in source:
        items = source["downwardAPI"].get("items") or []
        return {item["path"]: field(pod, item["fieldRef"]["fieldPath"]).encode() for item in items}
    if "projected" in source:
        parts = [await _content(cluster, pod, part) for part in source["projected"]["sources"]]
        return {path: content for part in parts for path, content in part.items()}
    raise NotThere(f"no volume of this kind here: {source}")


async def _chosen(cluster: Cluster, kind: str, namespace: str, own: Json) -> dict[str, bytes]:
    """The keys of a Secret or ConfigMap under the paths that a volume gives them."""
    try:
        content = await cluster.content(kind, namespace, own["name"])
    except NotThere:
        if own.get("optional"):
            return {}
        raise
    if not own.get("items"):
        return content
    return {item["path"]: _value(content, item["key"], own["name"]) for item in own["items"]}


def mount(container: Json, volumes: Path, root: Path) -> None:
    """Show the container's volumes below ``root``, at the paths of their mounts."""
    shutil.rmtree(root, ignore_errors=True)
    for mounted in container.get("volumeMounts") or []:
        target = root / mounted["mountPath"].lstrip("/")
        target.parent.mkdir(parents=True, exist_ok=True)
        target.symlink_to(volumes / mounted["name"] / mounted.get("subPath", ""))


async def variables(
    cluster: Cluster, pod: Json, container: Json, *, address: str, image: Mapping[str, str], root: Path
) -> dict[str, str]:
    """The variables of a container's process; paths of mounts are those below ``root``."""
    pod = {**pod, "status": {**pod["status"], "podIP": address, "hostIP": address}}
    result = await _from_sources(cluster, pod, container)
    for variable in container.get("env") or []:
        value = variable.get("value", "")
        if source := variable.get("valueFrom"):
            value = await _from_source(cluster, pod, source)
            if value is None:
                continue
        result[variable["name"]] = expanded(value, result) if "value" in variable else value
    paths = [mounted["mountPath"] for mounted in container.get("volumeMounts") or []]
    moved = {name: below(value, paths, root) for name, value in result.items()}
    host, _, port = cluster.api.access.server.rpartition("//")[2].rpartition(":")
    own = {"HOME": "/nonexistent", "HOSTNAME": pod["metadata"]["name"], "LC_ALL": "C.UTF-8"}
    return (
        own
        | dict(image)
        | moved
        | {
            "KUBERNETES_SERVICE_HOST": host,
            "KUBERNETES_SERVICE_PORT": port,
            "TMPDIR": str(root / "tmp"),
            "PYTHONPATH": str(SHIM),
            ROOT: str(root),
        }
    )


async def _from_sources(cluster: Cluster, pod: Json, container: Json) -> dict[str, str]:
    result: dict[str, str] = {}
    for source in container.get("envFrom") or []:
        kind = "Secret" if "secretRef" in source else "ConfigMap"
        own = source.get("secretRef") or source["configMapRef"]
        content = await _chosen(cluster, kind, pod["metadata"]["namespace"], own)
        result |= {source.get("prefix", "") + key: value.decode() for key, value in content.items()}
    return result


async def _from_source(cluster: Cluster, pod: Json, source: Json) -> str | None:
    if "fieldRef" in source:
        return field(pod, source["fieldRef"]["fieldPath"])
    if "resourceFieldRef" in source:
        raise NotThere("no variable from resources here")
    kind = "Secret" if "secretKeyRef" in source else "ConfigMap"
    own = source.get("secretKeyRef") or source["configMapKeyRef"]
    try:
        content = await cluster.content(kind, pod["metadata"]["namespace"], own["name"])
        return _value(content, own["key"], own["name"]).decode()
    except NotThere:
        if own.get("optional"):
            return None
        raise


def _value(content: Mapping[str, bytes], key: str, name: str) -> bytes:
    if key not in content:
        raise NotThere(f'couldn\'t find key {key} in "{name}"')
    return content[key]


def field(pod: Json, path: str) -> str:
    """A field of the pod as the downward API gives it; its address is the one that can be bound here."""
    if path in {"status.podIP", "status.hostIP"}:
        return local_address(pod["status"][path.partition(".")[2]])
    head, bracket, rest = path.partition("['")
    value: Any = pod
    for part in head.split("."):
        value = (value or {}).get(part)
    return str((value or {}).get(rest.removesuffix("']"), "")) if bracket else str(value or "")


def local_address(address: str) -> str:
    """Where this machine has what the cluster calls 10.R.x.y."""
    return f"127.{address.partition('.')[2]}" if address.startswith("10.") else address


def expanded(text: str, values: Mapping[str, str]) -> str:
    """``$(NAME)`` as Kubernetes replaces it; an unknown one stays, ``$$`` is a dollar."""
    return _REFERENCE.sub(lambda m: "$" if m[0] == "$$" else values.get(m[1], m[0]), text)


def below(text: str, paths: list[str], root: Path) -> str:
    """The text with each path of a mount moved below ``root``."""
    for path in sorted(paths, key=len, reverse=True):
        pattern = rf"(?:(?<=file://)|(?<![\w./-])){re.escape(path)}(?![\w.-])"
        text = re.sub(pattern, lambda match: str(root) + match[0], text)
    return text
