"""The texts of KAI's predicates and binder, as patterns with a code and a sentence for each.

KAI joins them in three ways. A pod's *condition before any node*: "Scheduling conditions were not met for pod
ns/p:" and on each further line a predicate and its error. A *count over nodes*: "no nodes with enough
resources were found: 3 node is unschedulable. 2 node(s) didn't have enough resources: GPUs". And both behind
a count of the gang: "Resources were found for 2 pods while 4 are required ... due to: ...".

Only a shortage of resources is room. A gang's count with another cause behind it says what KAI tried, not
that room is missing (``of_room``). Source: running KAI v0.13 and v0.17; ``plugins/predicates``,
``plugins/dynamicresources``, ``k8s_internal/predicates``, ``scheduler_util``, ``api/common_info`` of v0.13 to
v0.17.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass

from scheduling.backends.claims import CLAIMS_IN_USE, NOT_ENOUGH_RESOURCES

Match = re.Match[str]

_DUE_TO = re.compile(r"due to: ?(?P<cause>.*)", re.DOTALL)
_NOT_SELECTED = "node(s) didn't match Pod's node affinity/selector"
_COUNTED = rf"(?:\d+ )?{re.escape(_NOT_SELECTED)}"
_NODES_OF_OTHERS = re.compile(rf"no nodes with enough resources were found: {_COUNTED}\.*")
"""Nodes of other pools never match, so alone or behind a gang's count this says nothing of the pool's own."""
_COUNTS_OF_OTHERS = re.compile(rf"{_COUNTED}(?:\. \n{_COUNTED})+")
_SHORTAGE = re.compile(r"didn't have enough|pod number exceeded|Not enough resources")


@dataclass(frozen=True, slots=True)
class Text:
    """One text of KAI. ``sentence`` may name the groups of ``pattern``."""

    pattern: re.Pattern[str]
    code: str
    sentence: str

    def words(self, match: Match) -> str:
        return self.sentence.format_map({name: text or "" for name, text in match.groupdict().items()})


_COUNT = r"(?:(?P<count>\d+) )?"
_CLOSED = "NodesClosed"

TEXTS: tuple[Text, ...] = (
    Text(
        re.compile(r'persistentvolumeclaim "?(?P<claim>[^"\s]+)"? not found'),
        "VolumeMissing",
        "Its pods mount PersistentVolumeClaim {claim}, which does not exist in the namespace.",
    ),
    Text(
        re.compile(r'persistentvolumeclaim "?(?P<claim>[^"\s]+)"? is being deleted'),
        "VolumeMissing",
        "Its pods mount PersistentVolumeClaim {claim}, which is being deleted.",
    ),
    Text(
        re.compile(
            r"(?P<what>pod has unbound immediate PersistentVolumeClaims|"
            r"didn't find available persistent volumes|volume node affinity conflict|"
            r"unbound PersistentVolumeClaims|not enough free storage)"
        ),
        "VolumeNotBound",
        "A volume of its pods cannot be used on any node: {what}.",
    ),
    Text(
        re.compile(r"Missing required configmaps: \[(?P<names>[^\]]*)\]"),
        "ConfigMapMissing",
        "Its pods need ConfigMaps that do not exist in the namespace: {names}.",
    ),
    Text(
        re.compile(
            r"Max (?P<what>\S+) resources available in a single node in the (?P<shard>\S+) node-pool is "
            r"topped at (?P<most>\d+(?:\.\d+)?)(?: (?P<unit>cores|GB))?"
        ),
        "LargerThanAnyNode",
        "A task asks for more {what} than any node has: the largest has {most} {unit}.",
    ),
    Text(
        re.compile(r"No node in the (?P<shard>\S+) node-pool has (?P<what>\S+) resources"),
        "LargerThanAnyNode",
        "A task asks for {what}, and no node of KAI's node pool {shard} has any.",
    ),
    Text(
        re.compile(r"didn't match pod affinity rules"),
        "PodAffinity",
        "The pods' affinity to other pods holds on no node; the pool's pod template sets it.",
    ),
    Text(
        re.compile(r"didn't (?:match|satisfy existing pods) (?:pod )?anti-affinity rules"),
        "PodAffinity",
        "The pods' anti-affinity to other pods leaves no node; the pool's pod template sets it.",
    ),
    Text(
        re.compile(r"didn't have free ports for the requested pod ports"),
        "PortsInUse",
        "The host ports that its pods ask for are in use on the nodes.",
    ),
    Text(
        re.compile(_COUNT + r"node(?:\(s\))? (?:is|were) unschedulable"),
        _CLOSED,
        "Nodes that these tasks may use are cordoned.",
    ),
    Text(
        re.compile(_COUNT + r"node(?:\(s\))? has (?P<what>\w+) condition"),
        _CLOSED,
        "Nodes that these tasks may use take no pods: they report {what}.",
    ),
    Text(
        re.compile(_COUNT + r"node(?:\(s\))? were not ready"),
        _CLOSED,
        "Nodes that these tasks may use are not ready.",
    ),
    Text(
        re.compile(_COUNT + r"node\(s\) had untolerated taint\(?s?\)?(?: \{(?P<taint>[^}]*)\})?"),
        "Taints",
        "Nodes have a taint {taint} that its pods do not tolerate.",
    ),
    Text(
        re.compile(_COUNT + r"node\(s\) didn't match Pod's node affinity/selector"),
        "NodeSelector",
        "Nodes do not match the node selection of its pods.",
    ),
    Text(
        re.compile(r"device class (?P<device_class>\S+) does not exist for claim"),
        "DeviceClassMissing",
        "Device class {device_class} does not exist in the cluster: NVIDIA's DRA driver is not installed.",
    ),
    Text(
        re.compile(
            r"dynamic resource allocation (?:feature )?is not (?:available|enabled)|DRA manager is not"
        ),
        "ClaimsNotServed",
        "KAI does not see that the cluster serves resource claims; its scheduler may need a restart.",
    ),
    Text(
        re.compile(
            r"no resource claim name found|failed to get resource claim|ResourceClaim not created yet|"
            r"resource claim \S+ is being deleted"
        ),
        "ClaimMissing",
        "Resource claims of its pods do not exist yet.",
    ),
    Text(
        re.compile(r"claim (?P<claim>\S+) node selector does not match node"),
        "ClaimElsewhere",
        "A claim of its pods is allocated on another node: {claim}.",
    ),
    Text(
        CLAIMS_IN_USE,
        "ChannelInUse",
        "Nodes have one NVLink channel each; some are in use by others, or no driver offers any.",
    ),
    Text(
        re.compile(r'Pod references subgroup "(?P<subgroup>[^"]*)", which does not exist in PodGroup'),
        "WrongSubgroup",
        "A pod names subgroup {subgroup}, which its pod group does not have: somebody changed one of them.",
    ),
    Text(
        re.compile(r"node does not have enough capacity\. Reason: \w+, Details: (?P<why>[^\n]+)"),
        "OverQuota",
        "The queue's share of a node is used up: {why}",
    ),
    Text(
        re.compile(r"no nodes with enough resources were found\.?\s*$"),
        "NoNode",
        "KAI looked at no node for these tasks; its node pool may have none.",
    ),
    Text(
        re.compile(r"node\(s\) pod number exceeded"),
        "NotEnoughRoom",
        "The nodes that these tasks may use have no room for more pods.",
    ),
    Text(
        NOT_ENOUGH_RESOURCES,
        "NotEnoughRoom",
        "Not enough free {what} on the nodes these tasks may use.",
    ),
    Text(
        re.compile(
            _COUNT + r"(?:node\(s\) expose GPUs through dynamic resource allocation only|"
            r"device-plugin GPU requests cannot be scheduled on DRA-only nodes)"
        ),
        "DeviceNodes",
        "Nodes that these tasks may use offer their GPUs only through DRA: KAI gives them to pods that ask "
        "by a resource claim, and not to tasks that ask for GPUs by number.",
    ),
)


def read(text: str) -> Iterator[tuple[str, str, Match]]:
    """The code and the sentence of each text in a message, with its match."""
    for text_of_kai in TEXTS:
        for match in text_of_kai.pattern.finditer(text):
            yield text_of_kai.code, _tidy(text_of_kai.words(match)), match


def closed_as_others(text: str) -> str:
    """A message with closed nodes as nodes that its pods do not select.

    KAI asks whether a node is closed before it compares labels: its counts of closed nodes are of all pools.
    """
    for entry in TEXTS:
        if entry.code == _CLOSED:
            text = entry.pattern.sub(_NOT_SELECTED, text)
    return _COUNTS_OF_OTHERS.sub(_NOT_SELECTED, text)


def of_room(text: str) -> bool:
    """Whether a count of the gang's pods in a message is about room, and about nothing else."""
    match = _DUE_TO.search(text)
    cause = match["cause"].strip() if match else ""
    return not cause or bool(_SHORTAGE.search(cause) or _NODES_OF_OTHERS.fullmatch(cause))


def only_nodes_of_others(text: str) -> bool:
    """Whether a text names nothing but nodes that pods do not select: no domain of the others has room."""
    return bool(_NODES_OF_OTHERS.fullmatch(cause_of(text).rpartition("\n")[2].strip()))


def cause_of(text: str) -> str:
    """The text behind a count of the gang's pods, the whole text if there is none."""
    match = _DUE_TO.search(text)
    return match["cause"].strip() if match and match["cause"].strip() else text.strip()


def _tidy(sentence: str) -> str:
    """A sentence without the gaps of parts that KAI left out."""
    words = " ".join(sentence.split()).replace(" .", ".").replace(" ,", ",").replace(" :", ":")
    return words[:1].upper() + words[1:]
