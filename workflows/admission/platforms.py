"""The platform of a task, and what that platform allows."""

import posixpath
from collections.abc import Iterator

from scheduling import names
from scheduling.errors import Fault, Notice, Path
from scheduling.sentences import did_you_mean, listing
from workflows.admission.pool_facts import PlatformFacts, PoolFacts
from workflows.spec.workflow_spec import Resource, TaskSpec


def platform_of(resource: Resource, facts: PoolFacts) -> PlatformFacts | Fault:
    """The platform of a resource spec: the one it names, or the pool's default."""
    platforms = tuple(sorted(name for name in facts.platforms if name))
    name = resource.platform or facts.default_platform
    if name in facts.platforms:
        return facts.platforms[name]
    if not name and not platforms:
        return facts.platforms[""]
    path: Path = (*resource.path, "platform")
    if not resource.platform:
        message = (
            f'Pool "{facts.terms.pool}" has no default platform, so resource "{resource.name}" must name '
            f"one of {listing(platforms)}."
        )
        return Fault(path, "platform_needed", message, allowed=platforms)
    message = f'Pool "{facts.terms.pool}" has no platform "{name[:63]}".{did_you_mean(name, platforms)}'
    message += (
        f" Its platforms are {listing(platforms)}." if platforms else " It has none: leave platform out."
    )
    return Fault(path, "unknown_platform", message, allowed=platforms)


def check_use(task: TaskSpec, platform: PlatformFacts) -> Iterator[Fault]:
    """The faults of a task that asks for what its platform does not allow."""
    where = f'Platform "{platform.name}"' if platform.name else "The pool"
    if task.privileged and not platform.privileged_allowed:
        message = f"{where} does not allow privileged tasks."
        yield Fault((*task.path, "privileged"), "privileged_not_allowed", message, allowed=("false",))
    if task.host_network and not platform.host_network_allowed:
        message = f"{where} does not allow tasks to use the network of their node."
        yield Fault((*task.path, "hostNetwork"), "host_network_not_allowed", message, allowed=("false",))
    init_containers = platform.template.pod.get("spec", {}).get("initContainers", [])
    container = names.container(task.name)
    if any(helper.get("name") == container for helper in init_containers):
        message = f'{where} adds an init container "{container}" to each pod. Give the task another name.'
        yield Fault((*task.path, "name"), "name_of_helper", message)
    for i, mount in enumerate(task.volume_mounts):
        if frozen_mount(mount, platform) is None:
            message = f"{where} does not allow tasks to mount {mount.partition(':')[0][:200]!a} of its nodes."
            path: Path = (*task.path, "volumeMounts", i)
            yield Fault(path, "mount_not_allowed", message, allowed=platform.allowed_mounts)


def frozen_mount(mount: str, platform: PlatformFacts) -> str | None:
    """The frozen form of a mount; None if the platform does not allow it.

    ``/./`` ends the directory that the platform allows. The path below it goes into the pod as a subPath,
    which the kubelet opens step by step inside its volume: in a hostPath, a link that some task made in a
    shared directory would lead anywhere on the node. The broadest directory that fits counts, because
    users may make links below it.
    """
    if mount in platform.default_mounts:
        return mount
    source, _, target = mount.partition(":")
    source = posixpath.normpath(source)
    allowed = (posixpath.normpath(root.partition(":")[0]) for root in platform.allowed_mounts)
    for root in sorted(allowed, key=len):
        if root in {source, "/"}:
            return f"{source}:{target or source}"
        if source.startswith(root + "/"):
            return f"{root}/./{source[len(root) + 1 :]}:{target or source}"
    return None


def node_notices(resource: Resource, platform: PlatformFacts) -> Iterator[Notice]:
    """Warn of a resource spec that no known node of a platform can hold. Nodes may be added: no fault."""
    name = f'platform "{platform.name}"' if platform.name else "the pool"
    if platform.nodes == 0:
        message = f'No node of {name} is known now, so tasks with resource "{resource.name}" wait for one.'
        yield Notice("no_nodes", message, resource.path)
    elif platform.node_gpus is not None and resource.gpu > platform.node_gpus:
        message = (
            f'Resource "{resource.name}" asks for {resource.gpu} GPUs, but no known node of {name} has more '
            f"than {platform.node_gpus}."
        )
        yield Notice("gpus_beyond_node", message, (*resource.path, "gpu"))
