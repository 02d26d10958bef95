"""The facts of a cluster of which a preflight finds nothing wrong."""

from pools.clusters.probe import Probe
from pools.preflight.facts import CheckedPool, ClusterFacts
from pools.preflight.rights import ACCOUNTS, rights_of
from scheduling.backends.kai import KAI
from scheduling.preflight import Unread
from scheduling.topology.levels import Level

REFUSED = Unread("it is forbidden")
CLIQUE = "nvidia.com/gpu.clique"
LEVELS = (Level("rack", "example.com/rack"), Level("clique", CLIQUE))
POOL = CheckedPool(
    name="train",
    nvlink=True,
    levels=LEVELS,
    nodes=2,
    labels={"example.com/rack": 2, CLIQUE: 2},
    gpu_nodes=frozenset({"n0", "n1"}),
)
EVERY_RIGHT = {
    right: True
    for account in ACCOUNTS
    for flag in (True, False)
    for right in rights_of(account, optional=flag)
}
SHARD = {"metadata": {"name": "default"}, "spec": {"partitionLabelValue": ""}}
BINDER = {
    "metadata": {"name": "kai-binder"},
    "rules": [
        {
            "apiGroups": ["resource.k8s.io"],
            "resources": ["resourceclaims/binding"],
            "verbs": ["update", "patch"],
        }
    ],
}


def scheduler(*flags, name="kai-scheduler"):
    args = [f"--scheduler-name={name}", "--nodepool-label-key=kai.scheduler/node-pool", *flags]
    containers = [{"name": "scheduler", "args": args}]
    return {
        "metadata": {"name": "kai-scheduler-default"},
        "spec": {"template": {"spec": {"containers": containers}}},
    }


INSTALLED = {
    "shards": (SHARD,),
    "schedulers": (scheduler("--update-pod-eviction-condition=true"),),
    "binder": (BINDER,),
}
PROBE = Probe(cluster_uid="u", kubernetes_version="v1.37.2", scheduler_version="0.15", compute_domains=True)
GOOD = ClusterFacts(
    backend="east",
    namespace="osmo",
    scheduler=KAI,
    scheduler_type="kai",
    scheduler_name="kai-scheduler",
    shard="",
    probe=PROBE,
    username="administrator",
    rights=EVERY_RIGHT,
    device_class=True,
    channels=frozenset({"n0", "n1"}),
    pools=(POOL,),
    installed=INSTALLED,
    clock=0.4,
)
