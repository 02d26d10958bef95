"""The four use cases as gangs, with the keys of a pool that fits each."""

from tests.unit.scheduling.build import gang

KEYS = {1: "zone rack clique", 2: "zone rack clique", 3: "zone rack clique", 4: "zone spine rack"}
CASES = {
    1: gang("a b c d*4: clique! left"),
    2: gang("a b c d*4: clique! left", "e f g h*4: clique! right"),
    3: gang("a b c d*4: zone! all, clique! left", "e f g h*4: zone! all, clique! right"),
    4: gang("a b c d*8: spine? all, rack? left", "e f g h*8: spine? all, rack? right"),
}
NAMES = {
    1: "1: four tasks in one required NVLink clique",
    2: "2: two sets of four tasks, each in one required clique",
    3: "3: the same, and all eight tasks in one required zone",
    4: "4: two sets of four tasks, a preferred rack each and a preferred spine for all",
}
