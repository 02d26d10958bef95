"""The gangs of the other tenant of `make up` are such as the service reads, and wait whatever else runs."""

from localcluster import scenario, tenant
from scheduling.backends.registry import installed
from scheduling.foreign.gang import GangKept, kept_pods
from workflows.values.foreign_pod import see_pod_terms


def objects(kind):
    return [body for body in tenant.objects().values() if body["kind"] == kind]


def foreign_gang(scheduler, manifest, pods=(), topologies=None):
    """The gang as the scheduler's facet reads it from its object and its pods."""
    facet = installed()[scheduler].foreign
    pods = [(facet.gang_of(pod)[1], see_pod_terms(pod)) for pod in pods]
    gang = GangKept(
        resource=facet.kinds[0].crd,
        namespace=tenant.NAMESPACE,
        name=manifest["metadata"]["name"],
        obj=facet.keep(facet.kinds[0], manifest, pod_of=see_pod_terms),
        pods=kept_pods(pods),
    )
    return facet.read(gang, topologies=topologies or {}, queues={}, version=None)


def test_the_pod_group_of_kai_needs_one_node_more_than_a_clique_has():
    (manifest,) = objects("PodGroup")
    levels = {tenant.TOPOLOGY: tuple(scenario.ALL_PLACES["gb200"].keys.values())}
    gang = foreign_gang("kai", manifest, objects("Pod"), topologies=levels)
    assert gang.unread == ()
    assert gang.tasks == len(scenario.ALL_PLACES["gb200"].hosts) + 1
    assert gang.gpus == gang.tasks * scenario.GPUS
    assert gang.owner == ("PodCliqueSet", "pcs")


def test_the_workload_of_kueue_needs_one_node_more_than_a_clique_has():
    (manifest,) = objects("Workload")
    (pod_set,) = manifest["spec"]["podSets"]
    assert pod_set["count"] == scenario.NODES_PER_RACK + 1
    assert foreign_gang("kueue", manifest).owner == ("RayCluster", "raycluster")
