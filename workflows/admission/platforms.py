"""Which platform a task runs on and what that platform lets it do."""

import difflib
import posixpath
from collections.abc import Iterator

from scheduling import names
from scheduling.errors import Fault, Notice, Path
from scheduling.sentences import listing
from workflows.admission.pool_facts import PlatformFacts, PoolFacts
from workflows.spec.workflow_spec import Resource, TaskSpec


def choose(resource: Resource, facts: PoolFacts) -> PlatformFacts | Fault:
    """The platform of a resource spec: the one it names, or the pool's default."""
    known = tuple(sorted(name for name in facts.platforms if name))
    wanted = resource.platform or facts.default_platform
    if wanted in facts.platforms:
        return facts.platforms[wanted]
    if not wanted and not known:
        return facts.platforms[""]
    path: Path = (*resource.path, "platform")
    if not resource.platform:
        message = (
            f'Pool "{facts.name}" has no default platform, so resource "{resource.name}" must name one of '
            f"{listing(known)}."
        )
        return Fault(path, "platform_needed", message, allowed=known)
    near = difflib.get_close_matches(wanted[:63], known, n=1)
    message = f'Pool "{facts.name}" has no platform "{wanted[:63]}"'
    message += f'; did you mean "{near[0]}"?' if near else "."
    message += f" It has {listing(known)}." if known else " It has none, so leave platform out."
    return Fault(path, "unknown_platform", message, allowed=known)


def check_use(task: TaskSpec, platform: PlatformFacts) -> Iterator[Fault]:
    """Find what a task asks of its nodes that its platform does not allow."""
    where = f'Platform "{platform.name}"' if platform.name else "The pool"
    if task.privileged and not platform.privileged_allowed:
        said = f"{where} does not allow privileged tasks."
        yield Fault((*task.path, "privileged"), "privileged_not_allowed", said, allowed=("false",))
    if task.host_network and not platform.host_network_allowed:
        said = f"{where} does not allow tasks on the network of their node."
        yield Fault((*task.path, "hostNetwork"), "host_network_not_allowed", said, allowed=("false",))
    helpers = {one.get("name") for one in platform.template.pod.get("spec", {}).get("initContainers", [])}
    container = names.container(task.name)
    if container in helpers:
        said = f'{where} has a helper in each pod that is named "{container}": name the task otherwise.'
        yield Fault((*task.path, "name"), "name_of_helper", said)
    for i, mount in enumerate(task.volume_mounts):
        if frozen_mount(mount, platform) is None:
            said = f"{where} does not allow to mount {mount.partition(':')[0][:200]!a} of its nodes."
            path: Path = (*task.path, "volumeMounts", i)
            yield Fault(path, "mount_not_allowed", said, allowed=platform.allowed_mounts)


def frozen_mount(mount: str, platform: PlatformFacts) -> str | None:
    """A mount as it is frozen, or None if the platform does not allow it.

    ``/./`` ends the directory that the platform allows. What lies below goes into the pod as a subPath,
    which the kubelet opens step by step inside its volume: in a hostPath a link that some task made in a
    shared directory would lead anywhere on the node. The broadest directory that fits counts, because
    links below it are the users' own to make.
    """
    if mount in platform.default_mounts:
        return mount
    source, _, target = mount.partition(":")
    source = posixpath.normpath(source)
    roots = sorted((posixpath.normpath(one.partition(":")[0]) for one in platform.allowed_mounts), key=len)
    for root in roots:
        if root in {source, "/"}:
            return f"{source}:{target or source}"
        if source.startswith(root + "/"):
            return f"{root}/./{source[len(root) + 1 :]}:{target or source}"
    return None


def notices_of(resource: Resource, platform: PlatformFacts) -> Iterator[Notice]:
    """What the known nodes of a platform say against a resource spec. Nodes may come, so it is no fault."""
    name = f'platform "{platform.name}"' if platform.name else "the pool"
    if platform.nodes == 0:
        said = (
            f'No node of {name} is known at the moment, so tasks with resource "{resource.name}" will wait.'
        )
        yield Notice("no_nodes", said, resource.path)
    elif platform.node_gpus is not None and resource.gpu > platform.node_gpus:
        said = (
            f'Resource "{resource.name}" asks for {resource.gpu} GPUs, but no known node of {name} has more '
            f"than {platform.node_gpus}."
        )
        yield Notice("gpus_beyond_node", said, (*resource.path, "gpu"))
