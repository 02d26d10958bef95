"""Texts that KAI writes about a pending gang, by version, and the reason that each becomes.

``python -m tests.unit.scheduling.kai_texts`` prints the page docs/reference/kai-texts.md.
"""

import sys
from dataclasses import dataclass

from scheduling.backends.base import BindFailure, Waiting
from scheduling.backends.kai import Kai
from scheduling.topology.levels import Level

ALL = "0.13 to 0.17"
POD = "Scheduling conditions were not met for pod ns/p:\n"
NODES = "no nodes with enough resources were found: "
GANG = (
    "Resources were found for 2 pods while 4 are required for gang scheduling. "
    "Additional pods cannot be scheduled due to: "
)
SET = (
    "Resources were found for 2 pods from all sub-groups while sub-group 00-a requires 4 pods for gang "
    "scheduling. Additional pods cannot be scheduled in this sub-group due to: "
)


@dataclass(frozen=True, kw_only=True)
class Written:
    """A text as KAI writes it; ``where`` is the object that carries it, ``seen`` how it is known."""

    phrase: str
    text: str
    versions: str = ALL
    where: str = "pod group"
    seen: str = "source"
    codes: tuple[str, ...]
    sentence: str


def _w(phrase, text, codes, sentence, **more):
    return Written(phrase=phrase, text=text, codes=tuple(codes.split()), sentence=sentence, **more)


TEXTS = (
    _w(
        "a domain that is too small",
        "node-group a can allocate only 8 of 9 required pods",
        "DomainTooSmall",
        "Domain a has room for 8 of 9 tasks.",
        seen="tried",
    ),
    _w(
        "no domain of the required level",
        "topology t, requirement topology/zone couldn't be satisfied for job <ns/g>",
        "TopologyNotSatisfied",
        "No zone has room for the whole task group at the moment; one zone is required.",
        seen="tried",
    ),
    _w(
        "no domain of the required level, for one set",
        "topology t, requirement topology/rack couldn't be satisfied for job <ns/g>, subgroup 00-a",
        "TopologyNotSatisfied",
        'No rack has room for rack "r1" at the moment; one rack is required.',
        seen="tried",
    ),
    _w(
        "a Topology that is gone",
        "Requested topology nope does not exist",
        "TopologyMissing",
        "Topology object nope is missing from the cluster; the service creates it again.",
        seen="tried",
    ),
    _w(
        "too little room for the gang",
        GANG + NODES + "4 node(s) didn't have enough resources: GPUs.",
        "NotEnoughRoom NotEnoughRoom",
        "There is room for 2 tasks, but 4 must start together.",
        seen="tried",
    ),
    _w(
        "too little room for one set",
        SET + NODES + "4 node(s) didn't have enough resources: GPUs.",
        "NotEnoughRoom NotEnoughRoom",
        'There is not enough room for the 4 tasks of rack "r1".',
        seen="tried",
    ),
    _w(
        "too little memory",
        NODES + "4 node(s) didn't have enough resources: memory.",
        "NotEnoughRoom",
        "Not enough free memory on the nodes these tasks may use.",
    ),
    _w(
        "too few devices of a name with dots",
        NODES + "4 node(s) didn't have enough resources: nvidia.com/mig-1g.10gb.",
        "NotEnoughRoom",
        "Not enough free nvidia.com/mig-1g.10gb on the nodes these tasks may use.",
    ),
    _w(
        "a domain's sum is too small",
        "node-group(s) didn't have enough resources: CPU cores",
        "NotEnoughRoom",
        "Not enough free CPU cores on the nodes these tasks may use.",
    ),
    _w(
        "too many pods",
        NODES + "2 node(s) pod number exceeded.",
        "NotEnoughRoom",
        "The nodes that these tasks may use have no room for more pods.",
    ),
    _w(
        "no node at all",
        "no nodes with enough resources were found",
        "NoNode",
        "KAI looked at no node for these tasks; its node pool may have none.",
    ),
    _w(
        "cordoned nodes",
        GANG + NODES + "1 node is unschedulable.",
        "NodesClosed",
        "Nodes that these tasks may use are cordoned.",
        seen="tried",
    ),
    _w(
        "nodes that are not ready",
        NODES + "2 node has NotReady condition.",
        "NodesClosed",
        "Nodes that these tasks may use take no pods: they report NotReady.",
    ),
    _w(
        "nodes under pressure",
        NODES + "2 node has DiskPressure condition.",
        "NodesClosed",
        "Nodes that these tasks may use take no pods: they report DiskPressure.",
    ),
    _w(
        "a taint",
        NODES + "3 node(s) had untolerated taint {team: x}.",
        "Taints",
        "Nodes have a taint team: x that its pods do not tolerate.",
    ),
    _w(
        "a taint that is not named",
        NODES + "3 node(s) had untolerated taint(s).",
        "Taints",
        "Nodes have a taint that its pods do not tolerate.",
        versions="0.15 to 0.17",
    ),
    _w(
        "a selector that matches nothing",
        NODES + "3 node(s) didn't match Pod's node affinity/selector.",
        "NodeSelector",
        "Nodes do not match the node selection of its pods.",
    ),
    _w(
        "full nodes beside those of other pools",
        POD + NODES + "48 node(s) didn't match Pod's node affinity/selector, "
        "8 node(s) didn't have enough resources: GPUs.",
        "NotEnoughRoom",
        "Not enough free GPUs on the nodes these tasks may use.",
    ),
    _w(
        "a volume claim that does not exist",
        POD + 'VolumeBinding: persistentvolumeclaim "data" not found.',
        "VolumeMissing",
        "Its pods mount PersistentVolumeClaim data, which does not exist in the namespace.",
        seen="tried",
    ),
    _w(
        "a volume claim that is being deleted",
        POD + 'VolumeBinding: persistentvolumeclaim "data" is being deleted.',
        "VolumeMissing",
        "Its pods mount PersistentVolumeClaim data, which is being deleted.",
    ),
    _w(
        "a volume on another node",
        NODES + "4 node(s) had volume node affinity conflict.",
        "VolumeNotBound",
        "A volume of its pods cannot be used on any node: volume node affinity conflict.",
    ),
    _w(
        "a ConfigMap that does not exist",
        POD + "ConfigMap: Missing required configmaps: [settings].",
        "ConfigMapMissing",
        "Its pods need ConfigMaps that do not exist in the namespace: settings.",
        seen="tried",
    ),
    _w(
        "a missing volume claim behind the count of the gang",
        GANG + POD + 'VolumeBinding: persistentvolumeclaim "data" not found.',
        "VolumeMissing",
        "Its pods mount PersistentVolumeClaim data, which does not exist in the namespace.",
        seen="tried",
    ),
    _w(
        "affinity to other pods",
        NODES + "4 node(s) didn't match pod affinity rules.",
        "PodAffinity",
        "The pods' affinity to other pods holds on no node; the pool's pod template sets it.",
    ),
    _w(
        "anti-affinity to other pods",
        NODES + "4 node(s) didn't match pod anti-affinity rules.",
        "PodAffinity",
        "The pods' anti-affinity to other pods leaves no node; the pool's pod template sets it.",
    ),
    _w(
        "a host port in use",
        NODES + "4 node(s) didn't have free ports for the requested pod ports.",
        "PortsInUse",
        "The host ports that its pods ask for are in use on the nodes.",
    ),
    _w(
        "a task larger than any node",
        POD + "MaxNodePoolResources: The pod ns/p requires GPU: 16, CPU: 0 (cores), memory: 0 (GB), pods: 1. "
        "Max GPU resources available in a single node in the default node-pool is topped at 8.",
        "LargerThanAnyNode",
        "A task asks for more GPU than any node has: the largest has 8.",
    ),
    _w(
        "a shard without such nodes",
        POD + "MaxNodePoolResources: The pod ns/p requires GPU: 4, CPU: 0 (cores), memory: 0 (GB), pods: 1. "
        "No node in the default node-pool has GPU resources.",
        "LargerThanAnyNode",
        "A task asks for GPU, and no node of KAI's node pool default has any.",
    ),
    _w(
        "a channel in use",
        NODES + "4 cannot allocate all claims.",
        "ChannelInUse",
        "Nodes have one NVLink channel each; some are in use by others, or no driver offers any.",
        versions="0.13.0, 0.13.1",
        seen="tried",
    ),
    _w(
        "a channel in use, in newer words",
        GANG + NODES + "1 cannot allocate all DRA claims on node n1. \n"
        "1 cannot allocate all DRA claims on node n2.",
        "ChannelInUse ChannelInUse",
        "Nodes have one NVLink channel each; some are in use by others, or no driver offers any.",
        versions="0.13.2 to 0.17",
    ),
    _w(
        "a device class that is missing",
        "device class compute-domain-default-channel.nvidia.com does not exist for claim ns/c request c",
        "DeviceClassMissing",
        "Device class compute-domain-default-channel.nvidia.com does not exist in the cluster: NVIDIA's DRA "
        "driver is not installed.",
        versions="0.13.2 to 0.17",
    ),
    _w(
        "a claim that is not there yet",
        "no resource claim name found for pod ns/p and claim reference channel",
        "ClaimMissing",
        "Resource claims of its pods do not exist yet.",
        seen="tried",
    ),
    _w(
        "a claim that is not there yet, in Kubernetes' words",
        "ResourceClaim not created yet",
        "ClaimMissing",
        "Resource claims of its pods do not exist yet.",
        versions="0.13.0, 0.13.1",
    ),
    _w(
        "resource claims that KAI does not see",
        "pod ns/p cannot be scheduled, it references resource claims <channel> while dynamic resource "
        "allocation is not available in the cluster",
        "ClaimsNotServed",
        "KAI does not see that the cluster serves resource claims; its scheduler may need a restart.",
        versions="0.15 to 0.17",
    ),
    _w(
        "a pod of a wrong subgroup",
        'Pod references subgroup "x", which does not exist in PodGroup ns/g',
        "WrongSubgroup",
        "A pod names subgroup x, which its pod group does not have: somebody changed one of them.",
        versions="0.15 to 0.17",
        where="pod",
    ),
    _w(
        "a node that the binder could not bind to",
        "failed to update resource claim ns/c: forbidden",
        "BindFailed",
        "KAI chose a node, but its binder could not bind the pod: failed to update resource claim ns/c: "
        "forbidden",
        where="pod, PodBound",
    ),
    _w(
        "a queue at its limit",
        "q quota has reached the allowable limit of GPUs. Limit is 4 GPUs, currently 4 GPUs allocated",
        "OverQuota",
        "The pool may use at most 4 GPUs, and 4 are in use.",
    ),
    _w(
        "a queue that is gone",
        "Queue 'q' does not exist",
        "QueueMissing",
        "Queue q does not exist in the cluster yet.",
    ),
    _w(
        "a gang that is not complete",
        "Job is not ready for scheduling. Waiting for 4 pods, currently 2 exist, 0 are gated",
        "PodsMissing",
        "2 of 4 pods of the whole task group exist; the gang waits for the rest.",
        where="event NotReady",
    ),
    _w(
        "no reason given",
        "Unable to schedule podgroup.",
        "Unschedulable",
        "The scheduler cannot place the group and gives no reason; its queue, its topology levels or a lack "
        "of room may be the cause.",
        seen="tried",
    ),
    _w(
        "a text that nobody has seen",
        GANG + "moon in the wrong phase",
        "Unrecognised",
        "The scheduler says: moon in the wrong phase",
    ),
    _w(
        "nodes whose GPUs a DRA driver offers (to 0.16)",
        f"{NODES}2 device-plugin GPU requests cannot be scheduled on DRA-only nodes",
        "DeviceNodes",
        "Nodes that these tasks may use offer their GPUs only through DRA: KAI gives them to pods that ask "
        "by a resource claim, and not to tasks that ask for GPUs by number.",
        versions="0.13 to 0.16",
    ),
    _w(
        "the same, beside nodes of other pools",
        f"{NODES}2 node(s) expose GPUs through dynamic resource allocation only. "
        "\n4 node(s) didn't match Pod's node affinity/selector",
        "DeviceNodes",
        "Nodes that these tasks may use offer their GPUs only through DRA: KAI gives them to pods that ask "
        "by a resource claim, and not to tasks that ask for GPUs by number.",
        versions="0.13 to 0.16",
    ),
)


def reasons(written, **observed):
    """The reasons that a gang of four pods gets from one text, where KAI writes it."""
    event = written.where.startswith("event")
    group = {"metadata": {"name": "g"}}
    if written.where == "pod group":
        explained = [{"reason": "PodSchedulingErrors", "message": written.text}]
        group["status"] = {"schedulingConditions": [{"transitionID": "1", "reasons": explained}]}
    return Kai().waiting_reasons(
        Waiting(
            placed=False,
            expected=("g",),
            pod_groups=(group,),
            pods=4,
            pods_expected=5 if event else 4,
            levels=(Level("zone", "topology/zone"), Level("rack", "topology/rack")),
            sets={"00-a": 'rack "r1"'},
            events=({"reason": "NotReady", "message": written.text},) if event else (),
            pod_messages=(written.text,) if written.where == "pod" else (),
            bind_failures=(BindFailure(written.text),) if written.where == "pod, PodBound" else (),
            **observed,
        )
    )


HEAD = """# What KAI writes, and what users read

Texts that KAI writes about a pending gang, as a pod group's condition unless it says otherwise, by the code
of the reason that the service makes of them, with the sentence that users read for the first of them. A
text names its versions where not all of KAI 0.13 to 0.17 write it. *Tried* texts were seen on running KAI;
the others are in its source. Before most of them KAI writes a count of pods or `Scheduling conditions were
not met for pod ns/p:`; `…` stands for `no nodes with enough resources were found:`. A text that is not in
the list is shown as KAI wrote it and counted by `osmo_topology_unrecognised_reasons_total`.

`python -m tests.unit.scheduling.kai_texts` writes this page.

| code | KAI writes | users read |
|---|---|---|
"""


def page():
    """The reference page: a row for each code; texts that differ in the count before them are listed once."""
    codes = dict.fromkeys(written.codes[0] for written in TEXTS)
    return HEAD + "".join(_row(code) for code in codes)


def _row(code):
    texts = [written for written in TEXTS if written.codes[0] == code]
    shown = "<br>".join(dict.fromkeys(map(_shown, texts)))
    return f"| `{code}` | {shown} | {texts[0].sentence} |\n"


def _shown(written):
    """The text, without the count before it where that has no part in the reason, and where it is written."""
    text = written.text if len(written.codes) > 1 else written.text.removeprefix(GANG).removeprefix(POD)
    text = text.replace("\n", " ").replace(NODES, "… ").replace("|", "\\|")
    where = "" if written.where == "pod group" else written.where
    versions = "" if written.versions == ALL else written.versions
    seen = "" if written.seen == "source" else written.seen
    remark = ", ".join(filter(None, (where, versions, seen)))
    return f"`{text}`" + (f" ({remark})" if remark else "")


if __name__ == "__main__":
    sys.stdout.write(page())
