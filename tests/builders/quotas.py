"""Namespaces whose API server refuses pods: by a quota, or by a policy."""

from cluster.errors import RequestForbidden
from cluster.kinds import POD, RESOURCE_QUOTA


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


def gpu_quota(world, gpus, *, readable=False):
    """A quota "team" of so many GPUs; a readable one has the status that a controller keeps."""
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
    if not readable:
        world.cluster.fail(RequestForbidden("no right", status=403), kind=RESOURCE_QUOTA, times=10_000)
        return

    def controller(cluster):
        used = {resource: str(sum(map(gpus_of, cluster.all(POD))))}
        hard = {resource: str(gpus)}
        status = {"hard": hard, "used": used}
        metadata = {"name": "team", "namespace": "osmo"}
        if not any(quota["status"] == status for quota in cluster.all(RESOURCE_QUOTA)):
            cluster.put(RESOURCE_QUOTA, {"metadata": metadata, "spec": {"hard": hard}, "status": status})

    world.cluster.players.append(controller)
