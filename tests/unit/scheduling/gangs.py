"""Random gangs for property tests: sound ones, and ones that may be anything."""

from hypothesis import strategies as st

from scheduling.levels import Level
from scheduling.requirements import Gang, GangTask, Requirement

LEVELS = st.integers(1, 6).map(lambda n: tuple(Level(f"k{i}", f"topology/k{i}") for i in range(n)))
GROUPS = st.sampled_from(["a", "b", "a-b", "b-c", "Ä b", "default"])


@st.composite
def sound(draw, *, preferred=True):
    """A pool's levels and a gang whose requirements hold no contradiction, in any order of writing.

    A group's name begins with the keys above it, so that no (key, group) stands below two lists of keys.
    """
    pool = draw(LEVELS)
    kinds: dict[tuple, bool] = {}
    shapes = draw(
        st.lists(
            st.lists(st.tuples(st.booleans(), st.integers(0, 2)), min_size=len(pool), max_size=len(pool)),
            min_size=1,
            max_size=14,
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
                kinds[path] = draw(st.booleans()) or not preferred
            requirements.append(Requirement(level.key, group, kinds[path]))
            above += level.key
        written = tuple(draw(st.permutations(requirements)))
        tasks.append(GangTask(f"t{i}", draw(st.sampled_from([0, 1, 8])), written))
    return pool, Gang("g", tuple(tasks))


@st.composite
def anything(draw):
    """A pool's levels and a gang that may hold every fault there is."""
    pool = draw(LEVELS)
    keys = st.sampled_from([*(level.key for level in pool), "k", "nonsense"])
    groups = GROUPS | st.text(max_size=3)
    requirements = st.lists(st.builds(Requirement, keys, groups, st.booleans()), max_size=4).map(tuple)
    tasks = draw(st.lists(requirements, min_size=1, max_size=8))
    return pool, Gang("g", tuple(GangTask(f"t{i}", 1, mine) for i, mine in enumerate(tasks)))


def sets_of(pool, gang) -> dict[tuple, tuple[set[str], bool]]:
    """Each co-location set's tasks and kind, found the slow and obvious way."""
    sets: dict[tuple, tuple[set[str], bool]] = {}
    order = [level.key for level in pool]
    for task in gang.tasks:
        path = ()
        for requirement in sorted(task.requirements, key=lambda r: order.index(r.key)):
            path = (*path, (requirement.key, requirement.group))
            sets.setdefault(path, (set(), requirement.required))[0].add(task.name)
    return sets
