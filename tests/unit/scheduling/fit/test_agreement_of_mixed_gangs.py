"""The verdict against the stand-in for KAI, where everything is mixed.

Tasks of unlike sizes, some with resources that a pod template adds; sets, free tasks and preferences at
zone, rack and host; nodes without labels, closed nodes, other tenants' pods; own Topologies and an external
one; an older gang that takes its place first.
"""

from collections import Counter
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from scheduling.fit.gang_demand import GangDemand
from scheduling.fit.snapshot import Holding, Snapshot, amounts
from scheduling.fit.verdict import Answer, judge
from scheduling.gang.tree import build_tree
from scheduling.topology.requirements import Gang, GangTask, Requirement
from tests.unit.scheduling import build
from tests.unit.scheduling.fit.played import OTHERS, played
from tests.unit.scheduling.fit.worlds import demands, node
from tests.unit.scheduling.gangs import sound

POOL = build.levels("zone rack host")
VERSIONS = ("0.13", "0.17")


@st.composite
def nodes(draw, most=7):
    """Nodes of 4 or 8 GPUs in two zones of two racks, each its own host; any label may be missing."""
    some = []
    for number in range(draw(st.integers(1, most))):
        values = (
            draw(st.sampled_from(["a", "a", "b", None])),
            draw(st.sampled_from(["r1", "r1", "r2", None])),
            draw(st.sampled_from([f"h{number}", f"h{number}", None])),
        )
        labels = {level.label: value for level, value in zip(POOL, values, strict=True) if value}
        gpus = draw(st.sampled_from([2, 4, 8, 8]))
        held = min(gpus, draw(st.sampled_from([0, 0, 0, 2, 8])))
        plain = node(f"n{number}", labels, gpus=gpus, held=held)
        foreign = min(gpus - held, draw(st.sampled_from([0, 0, 0, 1])))
        closed = draw(st.sampled_from(["", "", "", "cordoned"]))
        some.append(replace(plain, others=amounts(gpu=foreign, pods=int(foreign > 0)), closed=closed))
    return some


@st.composite
def gangs(draw, most=6):
    """A gang and each task's demand."""
    _, gang = draw(sound(pool=POOL, most=most))
    sizes = draw(st.sampled_from([(4,), (2, 4), (0, 2, 4), (1, 2, 4, 8)]))
    tasks = tuple(replace(task, gpus=draw(st.sampled_from(sizes))) for task in gang.tasks)
    gang = replace(gang, tasks=tasks)
    extra = draw(st.sampled_from([False, False, True]))
    wants = demands(gang)
    for task in tasks if extra else ():
        others = tuple((name, 1) for name in OTHERS) if draw(st.booleans()) else ()
        wants[task.name] = replace(wants[task.name], others=others)
    return gang, wants


def judged(gang, wants, some, *, external):
    demand = GangDemand(build_tree(gang, POOL), wants, counts_largest=True, cut=2 if external else None)
    return judge(Snapshot.of(some, POOL, paths=True), demand)


@given(gangs(), nodes(), st.booleans())
def test_a_gang_called_never_is_not_placed_on_empty_open_nodes(case, some, external):
    gang, wants = case
    if judged(gang, wants, some, external=external).answer is not Answer.NEVER:
        return
    empty = [replace(node, holdings=(), others=amounts(), closed="") for node in some]
    for version in VERSIONS:
        bound = played([gang], empty, version, pool=POOL, external=external, wants=[wants])
        assert len(bound) < len(gang.tasks)


@given(gangs(), nodes(), st.booleans())
def test_a_gang_that_fits_now_for_certain_is_placed_now_and_no_other_is(case, some, external):
    gang, wants = case
    verdict = judged(gang, wants, some, external=external)
    if verdict.answer is Answer.NOW and not verdict.proven:
        return
    if not is_ordered(gang, wants):
        return
    for version in VERSIONS:
        bound = played([gang], some, version, pool=POOL, external=external, wants=[wants])
        assert (len(bound) == len(gang.tasks)) == (verdict.answer is Answer.NOW)
        placed = {task: at for (_, task), at in bound.items()}
        assert alike(placed, wants) == alike(verdict.places, wants)


def alike(places, wants):
    """How many tasks of each kind are on each node."""
    return Counter((wants[task], at) for task, at in places.items())


def test_the_fullest_domain_is_the_one_of_which_a_set_needs_most_closed_nodes_counted():
    """Rack r1 has less open room and more that is free in all, so KAI tries r2 first."""
    spots = {"n0": ("r1", 4, ""), "n1": ("r1", 8, "cordoned"), "n2": ("r2", 8, "")}
    labels = [level.label for level in POOL]
    some = [
        node(name, dict(zip(labels, ("a", rack, name), strict=True)), gpus=gpus, closed=closed)
        for name, (rack, gpus, closed) in spots.items()
    ]
    task = GangTask("t", 4, (Requirement("rack", "r", required=True),))
    gang = Gang("g", (task,))

    verdict = judged(gang, demands(gang), some, external=False)

    assert verdict.places == {"t": "n2"}
    for version in VERSIONS:
        assert played([gang], some, version, pool=POOL) == {("0", "t"): "n2"}


@given(gangs(most=4), gangs(most=4), nodes())
def test_a_gang_is_judged_on_what_an_older_one_leaves(older, younger, some):
    first = judged(*older, some, external=False)
    places = first.places if first.answer is Answer.NOW else {}
    (old, old_wants), (new, new_wants) = older, younger
    if not is_ordered(old, old_wants) or not is_ordered(new, new_wants):
        return
    second = judged(new, new_wants, [taken(node, places, old_wants) for node in some], external=False)
    for version in VERSIONS:
        bound = played([old, new], some, version, pool=POOL, wants=[old_wants, new_wants])
        if {task: at for (gang, task), at in bound.items() if gang == "0"} != places:
            continue
        count = sum(gang == "1" for gang, _ in bound)
        assert (count == len(new.tasks)) == (second.answer is Answer.NOW)


def taken(node, places, wants):
    more = tuple(Holding("older", wants[task].amounts) for task, at in places.items() if at == node.name)
    return replace(node, holdings=node.holdings + more)


def is_ordered(gang, wants):
    """Whether no leaf has tasks of two kinds, whose order is unknown."""
    return GangDemand(build_tree(gang, POOL), wants, counts_largest=True).is_ordered
