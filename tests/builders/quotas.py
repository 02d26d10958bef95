"""Namespaces whose API server refuses pods: by a quota, or by a policy."""

from cluster.errors import RequestForbidden
from cluster.kinds import POD


def gpus_of(pod):
    return sum(int(c["resources"]["limits"].get("nvidia.com/gpu", 0)) for c in pod["spec"]["containers"])


def refuse_pods(world, refusal):
    """Refuse each pod of which ``refusal`` returns a text, given the pods that exist."""
    create = world.cluster.create

    def admit(kind, obj, **options):
        if kind == POD and (text := refusal(obj, world.cluster.all(POD))):
            name = obj["metadata"]["name"]
            raise RequestForbidden(f'pods "{name}" is forbidden: {text}', status=403, reason="Forbidden")
        return create(kind, obj, **options)

    world.cluster.create = admit


def gpu_quota(world, gpus):
    """A quota "team" of so many GPUs."""
    resource = "requests.nvidia.com/gpu"

    def refusal(pod, pods):
        used, more = sum(map(gpus_of, pods)), gpus_of(pod)
        if used + more <= gpus:
            return ""
        return (
            f"exceeded quota: team, requested: {resource}={more}, used: {resource}={used}, "
            f"limited: {resource}={gpus}"
        )

    refuse_pods(world, refusal)
