"""Pools drawn at random whose nodes, foreign pods and quotas change while gangs wait for their scheduler."""

import json
from collections import Counter
from dataclasses import replace

from localcluster import nodes
from localcluster.api import ApiError
from localcluster.rest import Refused
from tests.e2e.conftest import CLIQUE, RACK, UNENDED
from tests.e2e.kueue_queues import Queues

GPUS = "requests.nvidia.com/gpu"
TAINT = {"key": "osmo.local/closed", "effect": "NoSchedule"}
FOREIGN = "/api/v1/namespaces/default/pods"


class RestlessWorld:
    """A pool of its own in ``world``; ``names`` are its workflows by the uuid of their one group."""

    def __init__(self, world, chance, *, number, scheduler, is_bounded):
        namespace = f"{world.namespace}-{scheduler}" if is_bounded else world.namespace
        self.world = replace(world, namespace=namespace, prefix=f"{world.prefix}{scheduler}-{number}-")
        self.chance, self.scheduler, self.is_bounded = chance, scheduler, is_bounded
        self.names, self.foreign, self.counts = {}, [], Counter()
        self.keys = ["rack", "clique"][: chance.choice([1, 1, 1, 2])]
        bounds = {"resources": {"gpu": {"maximum": self._bound()}}} if scheduler == "kai" else {}
        self.pool = self.world.make_pool(
            racks=chance.randint(1, 3),
            size=chance.randint(1, 4),
            nvlink="clique" in self.keys,
            scheduler=f"{scheduler}-bounded" if is_bounded else scheduler,
            **bounds,
        )
        listed, _ = self.world.api.list(nodes.PATH, query={"labelSelector": f"osmo.local/pool={self.pool}"})
        self.nodes = [node["metadata"]["name"] for node in listed]
        self._make_queue()

    def _make_queue(self):
        if self.scheduler == "kueue":
            Queues(self.world).make(self.pool, *[RACK, CLIQUE][: len(self.keys)], gpus=self._bound())

    def _bound(self):
        return self.chance.choice([4, 12, 1000, 1000])

    def act(self):
        """One thing happens, most often a gang that is submitted."""
        acts = [self.submit] * 5 + [self.end] * 3 + [self.cordon, self.taint, self.rebound]
        acts += [self.add_foreign, self.add_foreign, self.end_foreign, self.end_foreign]
        act = self.chance.choice(acts)
        try:
            act()
        except Refused as refused:
            if refused.status >= 500:
                raise
            self.counts["refused"] += 1
        except ApiError as conflict:  # somebody wrote at the same time
            if conflict.code != 409:
                raise

    def submit(self):
        priority = self.chance.choice(["NORMAL", "NORMAL", "NORMAL", "HIGH", "LOW"])
        name = self.world.submit(self.pool, self._gang(), priority=priority)
        self.names[self.world.groups(name)["g"]["uuid"].replace("-", "")] = name
        self.counts["submitted"] += 1

    def _gang(self):
        sets = [self._set(number) for number in range(self.chance.choice([1, 1, 2]))]
        tasks = [
            {"name": f"{name}-{task}", "image": "busybox", "command": ["sleep"], "resource": name}
            for name, count, _ in sets
            for task in range(count)
        ]
        group = {"name": "g", "tasks": [{**task, "lead": at == 0} for at, task in enumerate(tasks)]}
        resources = {name: resource for name, _, resource in sets}
        return json.dumps({"workflow": {"name": "w", "groups": [group], "resources": resources}})

    def _set(self, number):
        """The name of a set, how many tasks it has and what each asks for."""
        kind = self.chance.choice(["required", "required", "preferred"])
        wait = {"waitSeconds": self.chance.choice([10, 600])} if self.chance.random() < 0.2 else {}
        topology = {"key": self.chance.choice(self.keys), "group": f"s{number}", "requirementType": kind}
        topology |= wait if kind == "preferred" else {}
        amounts = {"gpu": self.chance.choice([1, 2, 4, 4]), "cpu": 1, "memory": "1Gi"}
        asks = {"topology": [topology]} if self.chance.random() < 0.8 else {}
        return f"s{number}", self.chance.randint(1, 4), amounts | asks

    def end(self):
        name = self.chance.choice(sorted(self.names.values()) or [""])
        if name and self.world.service.workflow(name)["status"] in UNENDED:
            self.world.service.cancel(name)

    def add_foreign(self):
        """A pod of somebody else for one node or any, which Kubernetes' scheduler places where it fits.

        It evicts those of low priority for gangs of ours, and gangs of ours for the others. A pod that is
        bound without room would stand on a node with less than nothing free, where no kubelet lets it start:
        with that Kueue 0.17.0 assigns -1 pods, which the API server refuses, for ever.
        """
        name, amounts = (
            f"{self.pool}-foreign-{len(self.foreign)}",
            {"nvidia.com/gpu": self.chance.choice("124")},
        )
        container = {"name": "main", "image": "none", "resources": {"requests": amounts, "limits": amounts}}
        node = {"kubernetes.io/hostname": self.chance.choice(self.nodes)}
        place = self.chance.choice([node, {"osmo.local/pool": self.pool}])
        spec = {"nodeSelector": place, "containers": [container], "automountServiceAccountToken": False}
        spec["tolerations"] = self.chance.choice([[], [{"operator": "Exists"}]])
        spec["terminationGracePeriodSeconds"] = 0
        spec["priorityClassName"] = self.chance.choice(["", "system-cluster-critical"])
        self.world.api.create(FOREIGN, {"metadata": {"name": name}, "spec": spec})
        self.foreign.append(name)

    def end_foreign(self):
        self.world.api.delete(f"{FOREIGN}/{self.chance.choice(self.foreign or ['none'])}")

    def cordon(self):
        """Close a node, or open one that is closed."""
        path, node = self._node()
        closed = node["spec"].get("unschedulable", False)
        self.world.api.patch(path, {"spec": {"unschedulable": not closed}})

    def taint(self):
        path, node = self._node()
        others = [taint for taint in node["spec"].get("taints", []) if taint != TAINT]
        after = others if TAINT in node["spec"].get("taints", []) else [*others, TAINT]
        version = {"resourceVersion": node["metadata"]["resourceVersion"]}
        self.world.api.patch(path, {"metadata": version, "spec": {"taints": after}})

    def _node(self):
        path = f"{nodes.PATH}/{self.chance.choice(self.nodes)}"
        return path, self.world.api.get(path)

    def rebound(self):
        """Change the quota of the queue, or of the namespace."""
        if self.is_bounded:
            path = f"/api/v1/namespaces/{self.world.namespace}/resourcequotas/team"
            self.world.api.patch(path, {"spec": {"hard": {GPUS: str(self.chance.choice([8, 32, 96]))}}})
        elif self.scheduler == "kai":
            changes = {"resources": {"gpu": {"maximum": self._bound()}}}
            self.world.service.call("PATCH", f"/api/configs/pool/{self.pool}", {"configs_dict": changes})
        self._make_queue()

    def open(self):
        """Nothing that others did is in the way any more."""
        for name in self.foreign:
            self.world.api.delete(f"{FOREIGN}/{name}")
        for name in self.nodes:
            self.world.api.patch(f"{nodes.PATH}/{name}", {"spec": {"unschedulable": False, "taints": []}})

    def picture(self, uuid):
        """What there is to see of a gang."""
        name = self.names[uuid]
        explained = self.world.service.get(f"/api/workflow/{name}/explain")["groups"]
        return "\n  ".join([f"{self.pool} {name}: {explained}", *self.world.service.events(name)])
