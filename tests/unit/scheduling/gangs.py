"""Random gangs for property tests: sound ones, and ones that may be anything."""

from dataclasses import replace
from itertools import product

from hypothesis import strategies as st

from scheduling.topology.levels import Level
from scheduling.topology.requirements import Gang, GangTask, Requirement
from tests.unit.scheduling import build

MARK = {"required": "!", "preferred": "?"}
DEPTHS = (1, 2, 3, 4, 1, 2, 3, 4, *range(1, 17))
"""Any number of levels there may be, a few more often."""

LEVELS = st.sampled_from(DEPTHS).map(lambda n: tuple(Level(f"k{i}", f"topology/k{i}") for i in range(n)))
GROUPS = st.sampled_from(["a", "b", "a-b", "b-c", "Ä b", "default"])


@st.composite
def sound(draw, *, preferred=True, patient=False, pool=None, most=14):
    """A pool's levels and a gang whose requirements hold no contradiction, in any order of writing.

    A group's name begins with the keys above it, so that no (key, group) stands below two lists of keys.
    With ``patient``, preferences may be held as required for a while.
    """
    pool = draw(LEVELS) if pool is None else pool
    waits = st.sampled_from([None, 30, 60.5, 90]) if patient else st.none()
    kinds: dict[tuple, tuple] = {}
    shapes = draw(
        st.lists(
            st.lists(st.tuples(st.booleans(), st.integers(0, 2)), min_size=len(pool), max_size=len(pool)),
            min_size=1,
            max_size=most,
        )
    )
    tasks = []
    for i, shape in enumerate(shapes):
        above, path, requirements = "", (), []
        for level, (named, number) in zip(pool, shape, strict=True):
            if not named:
                continue
            group = f"{above}{'' if number else 'Ä '}-{number}"
            path = (*path, (level.key, group))
            if path not in kinds:
                required = draw(st.booleans()) or not preferred
                kinds[path] = (required, None if required else draw(waits))
            required, seconds = kinds[path]
            requirements.append(Requirement(level.key, group, required, wait_seconds=seconds))
            above += level.key
        written = tuple(draw(st.permutations(requirements)))
        tasks.append(GangTask(f"t{i}", draw(st.sampled_from([0, 1, 8])), written))
    return pool, Gang("g", tuple(tasks))


@st.composite
def grouped(draw):
    """A pool's levels, a sound gang whose task group has a topology, and the same written into its tasks.

    Tasks name narrower keys than their group, some repeat what the group says, some leave it.
    """
    pool = draw(LEVELS)
    split = draw(st.integers(1, len(pool)))
    _, above = draw(sound(pool=pool[:split], patient=True))
    theirs = above.tasks[0].requirements
    own = draw(sound(pool=pool[split:], patient=True))[1] if split < len(pool) else above
    tasks, by_hand = [], []
    for task in own.tasks:
        mine = task.requirements if split < len(pool) else ()
        if draw(st.integers(0, 4)) == 0:
            alone = replace(task, requirements=(), inherits=False)
            tasks.append(alone)
            by_hand.append(replace(alone, inherits=True))
            continue
        repeated = tuple(requirement for requirement in theirs if draw(st.booleans()))
        tasks.append(replace(task, requirements=mine + repeated))
        by_hand.append(replace(task, requirements=mine + theirs))
    return pool, Gang("g", tuple(tasks), topology=theirs), Gang("g", tuple(by_hand))


@st.composite
def anything(draw):
    """A pool's levels and a gang that may hold every fault there is."""
    pool = draw(LEVELS)
    keys = st.sampled_from([*(level.key for level in pool), "k", "nonsense"])
    groups = GROUPS | st.text(max_size=3)
    waits = st.sampled_from([None, None, 0, -1, 30, 60, float("inf"), float("nan")])
    requirement = st.builds(Requirement, keys, groups, st.booleans(), wait_seconds=waits)
    requirements = st.lists(requirement, max_size=4).map(tuple)
    tasks = draw(st.lists(st.tuples(requirements, st.booleans()), min_size=1, max_size=8))
    members = tuple(GangTask(f"t{i}", 1, mine, inherits=inherits) for i, (mine, inherits) in enumerate(tasks))
    return pool, Gang("g", members, topology=draw(st.just(()) | requirements))


def sets_of(pool, gang, *, waited=float("inf")) -> dict[tuple, tuple[set[str], bool]]:
    """Each co-location set's tasks and kind after so long a wait, found the slow and obvious way."""
    sets: dict[tuple, tuple[set[str], bool]] = {}
    order = [level.key for level in pool]
    for task in gang.tasks:
        path = ()
        for requirement in sorted(task.requirements, key=lambda r: order.index(r.key)):
            path = (*path, (requirement.key, requirement.group))
            hard = requirement.required or (requirement.wait_seconds or 0) > waited
            sets.setdefault(path, (set(), hard))[0].add(task.name)
    return sets


@st.composite
def shapes(draw):
    """(kind of zone around all, size and number of required sets, sizes of preferred sets, free tasks)."""
    around = draw(st.sampled_from([None, "required", "preferred"]))
    size, number = draw(st.integers(1, 3)), draw(st.integers(0, 3))
    soft = draw(st.lists(st.integers(1, 3), max_size=2))
    free = draw(st.integers(0 if number + len(soft) else 1, 3))
    return around, size, number, soft, free


def gang_of(shape):
    around, size, number, soft, free = shape
    zone = f"zone{MARK[around]} z" if around else ""
    lines = [(f"h{i}", size, f"rack! h{i}") for i in range(number)]
    lines += [(f"s{i}", of, f"rack? s{i}") for i, of in enumerate(soft)]
    lines += [("f", free, "")] if free else []
    return build.gang(
        *(
            f"{' '.join(f'{name}t{i}' for i in range(of))}: {', '.join(x for x in (zone, rack) if x)}"
            for name, of, rack in lines
        )
    )


def with_gpus(gang, gpus):
    """The same gang, where each task asks for so many GPUs."""
    tasks = tuple(type(t)(t.name, gpus, t.requirements, t.path, t.inherits) for t in gang.tasks)
    return type(gang)(gang.name, tasks, gang.path, gang.topology)


def paths(depth):
    """Domains of a pool: two in each at the two broadest levels and at the narrowest, else one."""
    return list(product(*("xy" if rank < 2 or rank == depth - 1 else "x" for rank in range(depth))))
