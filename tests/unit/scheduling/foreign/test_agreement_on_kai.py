"""Pod groups as nobody here would write them: the verdict, and what the stand-in for KAI does with them.

Levels are required without being preferred, Topologies are longer than a constraint needs or name nothing,
sub-groups stand inside each other, leaves have no minimum, and pods name no leaf.
"""

from hypothesis import given
from hypothesis import strategies as st

from scheduling.fit.snapshot import Snapshot
from scheduling.fit.verdict import Answer, judge
from tests.builders.others_gangs import gang_kept, pod_kept, read
from tests.unit.scheduling.fit.played import played_object
from tests.unit.scheduling.fit.worlds import RACK, ZONE, clusters
from tests.unit.scheduling.foreign.objects import HOST, kai_pods, pod_group

TOPOLOGIES = {"zones": (ZONE,), "floor": (ZONE, RACK), "hosts": (ZONE, RACK, HOST)}
LEVELS = st.sampled_from(["", "", ZONE, RACK])


@st.composite
def constraints(draw):
    """None half the time; of the others most can be met."""
    if draw(st.booleans()):
        return {}
    topology = draw(st.sampled_from([*TOPOLOGIES, "floor", "hosts", "nowhere"]))
    required, preferred = draw(LEVELS), draw(LEVELS)
    if draw(st.integers(0, 9)):
        required, preferred = sorted((required, preferred), key=["", ZONE, RACK].index)
    entry = {"topology": topology, "requiredTopologyLevel": required, "preferredTopologyLevel": preferred}
    return {"topologyConstraint": {key: value for key, value in entry.items() if value}}


@st.composite
def pod_groups(draw):
    """A pod group, and the sub-group of each of its pods."""
    names = draw(st.lists(st.sampled_from("abcdef"), unique=True, max_size=5))
    if not names:
        count = draw(st.integers(1, 4))
        return pod_group(minMember=count, **draw(constraints())), [""] * count
    parents, entries, pods = set(), [], []
    for place, name in enumerate(names):
        parent = draw(st.sampled_from(["", *names[:place]]))
        parents.add(parent)
        entries.append({"name": name, **({"parent": parent} if parent else {}), **draw(constraints())})
    for entry in entries:
        if entry["name"] in parents:
            continue
        entry["minMember"] = draw(st.integers(1, 3))
        pods += [entry["name"]] * entry["minMember"]
    return pod_group(subGroups=entries, **draw(constraints())), pods


@given(pod_groups(), clusters(), st.sampled_from(["0.13", "0.17"]))
def test_a_gang_of_others_is_placed_exactly_where_the_verdict_says_so(case, nodes, version):
    obj, parts = case
    nodes = [node_with_host(node) for node in nodes]
    pods = [each for part in parts for each in kai_pods(1, part, gpus=1)]
    gang = read("kai", gang_kept("kai", obj, pods), topologies=TOPOLOGIES, version=version)
    bound = played_object(
        obj, [(part, pod_kept(gpus=1).demand()) for part in parts], nodes, version, topologies=TOPOLOGIES
    )
    is_fault = bool(gang.faults_on(nodes))
    if gang.unread and not is_fault:
        return
    answer = None if is_fault else judge(Snapshot.of(nodes, gang.levels, paths=True), gang.demand).answer
    assert (len(bound) == len(parts)) == (answer is Answer.NOW)


def node_with_host(node):
    return type(node)(
        **{name: getattr(node, name) for name in node.__slots__}
        | {"labels": {**node.labels, HOST: node.name}}
    )
