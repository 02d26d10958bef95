"""Where a placement exists at all, KAI finds one: its order of placing against a search through all of them.

KAI places siblings one after the other and never moves one that is placed, so no tree can make it find
every placement there is. For these shapes the order of names does: any number of equal sets that require one
level, preferred sets of any size, free tasks, and around all of it nothing, a required or a preferred zone.
Nodes hold one pod each; some are taken, some lack labels. For all other gangs it is tested that what KAI
places is right (every required level holds), never that it finds a place.
"""

from itertools import product

from hypothesis import given
from hypothesis import strategies as st

from scheduling.backends.kai import Kai
from tests.unit.scheduling import build
from tests.unit.scheduling.build import request
from tests.unit.scheduling.gangs import gang_of, sets_of, shapes, sound
from tests.unit.scheduling.kai_reader import V013, V017, Node, place, read

KAI = Kai()
POOL = build.levels("zone rack")
ZONE, RACK = (level.label for level in POOL)


@st.composite
def clusters(draw):
    """Up to eleven nodes in two zones of up to three racks; rack names repeat, labels may be missing."""
    nodes = []
    for number in range(draw(st.integers(1, 11))):
        zone = draw(st.sampled_from(["a", "a", "b", None]))
        rack = draw(st.sampled_from(["r1", "r1", "r2", "r3", None]))
        labels = {key: value for key, value in ((ZONE, zone), (RACK, rack)) if value}
        nodes.append(Node(f"n{number:02}", labels, draw(st.integers(0, 4)) > 0))
    return nodes


def exists(shape, nodes):
    """Whether any choice of domains gives each pod a node of its own. Knows nothing of trees or orders."""
    around, size, number, soft, free = shape
    open_ = [node for node in nodes if node.free]
    bare = [[n for n in open_ if ZONE in n.labels] if around else open_]
    zones = sorted({n.labels[ZONE] for n in bare[0]}) if around else []
    rooms = [[n for n in bare[0] if n.labels[ZONE] == zone] for zone in zones] if around else bare
    if around == "preferred":
        rooms.append(bare[0])
    return any(_fits(room, size, number, soft, free) for room in rooms)


def _fits(room, size, number, soft, free):
    labelled = [n for n in room if ZONE in n.labels and RACK in n.labels]
    racks = {(n.labels[ZONE], n.labels[RACK]) for n in labelled}
    for chosen in product(sorted(racks), repeat=number):
        wishes = [
            [n.name for n in labelled if (n.labels[ZONE], n.labels[RACK]) == rack]
            for rack in chosen
            for _ in range(size)
        ]
        wishes += [[n.name for n in labelled]] * sum(soft)
        wishes += [[n.name for n in room]] * free
        if _matched(wishes):
            return True
    return False


def _matched(wishes):
    """Whether each wish can have a name of its own, by augmenting paths."""
    held = {}

    def give(wish, tried):
        for name in wishes[wish]:
            if name not in tried:
                tried.add(name)
                if name not in held or give(held[name], tried):
                    held[name] = wish
                    return True
        return False

    return all(give(wish, set()) for wish in range(len(wishes)))


def placed(gang, nodes, version):
    got = KAI.render(request(gang, POOL))
    return place(read(got.pod_groups[0], got.pods, got.topologies), nodes, version)


@given(shapes(), clusters())
def test_kai_places_these_shapes_exactly_where_a_placement_exists(shape, nodes):
    gang = gang_of(shape)
    for version in (V013, V017):
        assert (placed(gang, nodes, version) is not None) == exists(shape, nodes)


@given(sound(pool=POOL), clusters())
def test_a_placement_by_kai_of_any_gang_holds_everything_required(case, nodes):
    pool, gang = case
    for version in (V013, V017):
        got = placed(gang, nodes, version)
        if got is None:
            continue
        assert len(set(got.values())) == len(gang.tasks)
        for path, (tasks, required) in sets_of(pool, gang).items():
            if required:
                rank = [level.key for level in pool].index(path[-1][0])
                paths = {tuple(got[t].labels[level.label] for level in pool[: rank + 1]) for t in tasks}
                assert len(paths) == 1
