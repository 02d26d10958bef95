"""The trees of groups that Kubernetes' own scheduler is told, and the Workload above them."""

import json
from itertools import starmap
from textwrap import dedent

import pytest

from scheduling.backends.base import Waiting
from scheduling.backends.kubernetes import Kubernetes
from scheduling.backends.kubernetes.composites_trial import is_held
from scheduling.capabilities import SchedulerVersion
from scheduling.errors import UnsupportedCapability
from scheduling.gang.gang_form import GangForm
from scheduling.gang.pins import Pin
from tests.unit.scheduling.build import GROUP, gang, levels, request
from tests.unit.scheduling.use_cases import CASES, KEYS

COMPOSITES = SchedulerVersion.parse_known("1.37 (CompositePodGroup)")
POOL = levels("zone spine rack host")
ROOT = f"{GROUP.hex}-0"


def render(asked, pool=POOL, **changes):
    return Kubernetes().render(request(asked, pool, version=COMPOSITES, **changes))


def picture(rendered):
    """Each group in the order in which the scheduler takes it, below its parent, with its key and tasks."""
    groups = [*rendered.parents, *rendered.pod_groups]
    tasks: dict[str, str] = {}
    for task, parts in rendered.pods.items():
        name = parts.spec["schedulingGroup"]["podGroupName"]
        tasks[name] = f"{tasks.get(name, '')} {task}"
    below: dict[str, list] = {}
    for group in groups:
        if group["kind"] != "Workload":
            below.setdefault(group["spec"].get("parentCompositePodGroupName", ""), []).append(group)

    def lines(parent, indent):
        for group in sorted(below.get(parent, ()), key=lambda group: group["metadata"]["name"]):
            name, spec = group["metadata"]["name"], group["spec"]
            keys = [entry["key"].partition("/")[2] for entry in _topology(spec)]
            count = next(iter(spec["schedulingPolicy"]["gang"].values()))
            short = name.removeprefix(ROOT) or "root"
            yield f"{indent}{short} | {' '.join(keys) or '-'} | {count}{tasks.get(name, '')}"
            yield from lines(name, f"{indent}  ")

    return "\n".join(lines("", ""))


def _topology(spec):
    return spec.get("schedulingConstraints", {}).get("topology", [])


GOLDEN = {
    "use case 1": (CASES[1], KEYS[1], "root | clique | 4 a b c d"),
    "use case 2": (
        CASES[2],
        KEYS[2],
        """
        root | - | 2
          -00 | clique | 4 a b c d
          -01 | clique | 4 e f g h
        """,
    ),
    "use case 3": (
        CASES[3],
        KEYS[3],
        """
        root | zone | 2
          -00 | clique | 4 a b c d
          -01 | clique | 4 e f g h
        """,
    ),
    "the largest set first, free tasks last": (
        gang("x y*8", "a: rack! small", "b c: rack! large"),
        "zone rack",
        """
        root | - | 3
          -00 | rack | 2 b c
          -01 | rack | 1 a
          -02 | - | 2 x y
        """,
    ),
    "two required keys are a path": (
        gang("a b: zone! z, rack! r"),
        "zone rack",
        """
        root | zone | 1
          -00 | rack | 2 a b
        """,
    ),
    "use case 4: preferences are no groups": (CASES[4], KEYS[4], "root | - | 8 a b c d e f g h"),
    "a preferred zone around required racks is none either": (
        gang("a b: zone? z, rack! r", "c d: zone? z, rack! s"),
        "zone rack",
        """
        root | - | 2
          -00 | rack | 2 a b
          -01 | rack | 2 c d
        """,
    ),
    "sets in sets in sets": (
        gang("a: zone! z, spine! s, rack! r", "b: zone! z, spine! s, rack! q", "c: zone! z, spine! t", "d"),
        "zone spine rack",
        """
        root | - | 2
          -00 | zone | 2
            -00-00 | spine | 2
              -00-00-00 | rack | 1 b
              -00-00-01 | rack | 1 a
            -00-01 | spine | 1 c
          -01 | - | 1 d
        """,
    ),
}


@pytest.mark.parametrize("phrase", GOLDEN)
def test_the_scheduler_is_told(phrase):
    asked, keys, want = GOLDEN[phrase]
    assert picture(render(asked, levels(keys))) == dedent(want).strip()


def test_parents_come_before_their_children_and_free_tasks_after_all_sets():
    rendered = render(gang("a: zone! z, rack! r", "b: zone! z, rack! q", "c: zone! z", "d"))
    kinds = [(obj["kind"], obj["metadata"]["name"].removeprefix(ROOT)) for obj in rendered.parents]
    assert kinds == [("Workload", ""), ("CompositePodGroup", ""), ("CompositePodGroup", "-00")]
    names = [obj["metadata"]["name"].removeprefix(ROOT) for obj in rendered.pod_groups]
    assert names == ["-00-00", "-00-01", "-00-02", "-01"]


def test_every_object_of_a_tree_is_of_one_priority_and_only_the_root_goes_as_a_whole():
    rendered = render(CASES[3], levels(KEYS[3]), priority_class="osmo-low")
    workload, root = rendered.parents
    template = workload["spec"]["compositePodGroupTemplates"][0]
    specs = [root["spec"], *(group["spec"] for group in rendered.pod_groups)]
    specs += [template, *template["podGroupTemplates"], *(parts.spec for parts in rendered.pods.values())]
    assert {spec["priorityClassName"] for spec in specs} == {"osmo-low"}
    assert [spec.get("disruptionMode") for spec in specs[:3]] == [{"all": {}}, None, None]


def test_each_group_is_what_its_template_says():
    asked = gang("a b: zone! z, rack! r", "c d: zone! z, rack! s", "e: zone! z, rack! t", "f")
    rendered = render(asked)
    workload, *composites = rendered.parents
    templates: dict[str, dict] = {}

    def collect(template):
        assert template["name"] not in templates
        templates[template["name"]] = template
        for name in ("podGroupTemplates", "compositePodGroupTemplates"):
            for inner in template.get(name, ()):
                collect(inner)

    (template,) = workload["spec"]["compositePodGroupTemplates"]
    collect(template)
    for group in (*composites, *rendered.pod_groups):
        reference = group["spec"]["workloadRef"]
        assert reference["workloadName"] == workload["metadata"]["name"]
        said = templates[reference["templateName"]]
        for field in ("schedulingPolicy", "schedulingConstraints", "disruptionMode", "priorityClassName"):
            assert group["spec"].get(field) == said.get(field)
    assert len(templates) == 5  # the root, the zone, racks of two, the rack of one, the free task


def test_equal_sets_share_a_template_however_many_there_are():
    rendered = render(gang(*(f"a{i} b{i}: rack! r{i}" for i in range(20))))
    (template,) = rendered.parents[0]["spec"]["compositePodGroupTemplates"]
    assert len(template["podGroupTemplates"]) == 1
    names = [group["metadata"]["name"] for group in rendered.pod_groups]
    assert names == sorted(names)


def unlike(count):
    return gang(
        *(f"{' '.join(f't{size}x{i}' for i in range(size))}: rack! r{size}" for size in range(1, count + 1))
    )


REFUSED = {
    "more than 8 unlike sets": (unlike(9), "too_many_unlike_sets", "9 unlike sets"),
    "sets five levels deep": (
        gang("a: zone! z, spine! s, rack! r, host! h", "b"),
        "too_many_levels_of_sets",
        "5 levels deep",
    ),
}


@pytest.mark.parametrize("phrase", REFUSED)
def test_what_no_workload_says_truthfully_is_refused_with_the_number(phrase):
    asked, code, words = REFUSED[phrase]
    backend = Kubernetes()
    checked = backend.check(asked, POOL, capabilities=backend.capabilities(COMPOSITES), domains=None)
    (fault,) = checked.faults
    assert (fault.code, fault.path) == (code, asked.path)
    assert words in fault.message
    with pytest.raises(UnsupportedCapability):
        render(asked)


def test_eight_unlike_sets_are_held():
    rendered = render(unlike(8))
    (template,) = rendered.parents[0]["spec"]["compositePodGroupTemplates"]
    assert len(template["podGroupTemplates"]) == 8


def test_a_refusal_says_how_composites_are_switched_on():
    backend = Kubernetes()
    plain = backend.capabilities(SchedulerVersion.parse("1.37"))
    checked = backend.check(CASES[2], levels(KEYS[2]), capabilities=plain, domains=[("a", "r", "c")])
    (fault,) = checked.faults
    for word in ("gang.multi_set", "CompositePodGroup", "v1alpha3", "CompositesHeld"):
        assert word in fault.message
    assert "GangScheduling" not in fault.message


def test_the_parts_of_a_tree_keep_the_users_words():
    rendered = render(gang("a: zone! Ä, rack! r", "b: zone! Ä", "c"))
    assert {name.removeprefix(ROOT): words for name, words in rendered.sets.items()} == {
        "": "the whole task group",
        "-00": 'zone "Ä"',
        "-00-00": 'rack "r" in zone "Ä"',
        "-00-01": 'the remaining tasks of zone "Ä"',
        "-01": "the remaining tasks of the whole task group",
    }
    words = [group["metadata"]["annotations"]["osmo.topology_set"] for group in rendered.pod_groups]
    assert json.loads(words[0]) == [["zone", "Ä"], ["rack", "r"]]


def test_a_preference_is_reported_as_applied_although_no_group_carries_it():
    rendered = render(gang("a b: zone! z, rack? r", "c: zone! z"))
    assert [(line.key, line.requirement, line.subgroup) for line in rendered.constraints] == [
        ("zone", "required", ROOT),
        ("rack", "preferred", ""),
    ]


def test_a_generation_has_names_of_its_own():
    names = [
        {obj["metadata"]["name"] for obj in (*rendered.parents, *rendered.pod_groups)}
        for rendered in (render(CASES[3], levels(KEYS[3]), generation=number) for number in (0, 1))
    ]
    assert not names[0] & names[1]


SIBLING = (
    "pod group is unschedulable, 0/2 placements are available, first placement status: minCount (2) cannot "
    "be satisfied: 1 scheduled, 0 remaining"
)
"""The text of a composite with two groups, which the scheduler writes on each pod group below it."""


OWN = SIBLING.replace("minCount (2)", "minCount (4)").replace("1 scheduled", "3 scheduled")
"""The text of a set of four that has no place of its own."""

NO_LABEL = "no feasible placements found, pod group preemption: No preemption victims found"
BESIDE = (
    'No rack has room for the 4 tasks of rack "q" beside the other sets at the moment; one rack is required.'
)
WHOLE = "There is no place for all sets of {} together at the moment."
TEXTS = {
    "a set below no key has no room beside the others": (
        ("a b c d: rack! r", "e f g h: rack! q"),
        (OWN, SIBLING),
        [
            BESIDE,
            WHOLE.format("the whole task group"),
        ],
    ),
    "inside a zone the text is of the first zone that was tried": (
        ("a b c d: zone! z, rack! r", "e f g h: zone! z, rack! q"),
        (OWN, SIBLING),
        [WHOLE.format('zone "z"')],
    ),
    "the first zone that was tried may be another pool's and have no rack": (
        ("a b c d: zone! z, rack! r", "e f g h: zone! z, rack! q"),
        (NO_LABEL, SIBLING),
        [WHOLE.format('zone "z"')],
    ),
    "a text that may be the composite's own is taken for that": (
        ("a b: rack! r", "c d: rack! q"),
        (SIBLING, SIBLING),
        [WHOLE.format("the whole task group")],
    ),
    "no node of the cluster has the label": (
        ("a b c d: rack! r", "e f g h: rack! q"),
        (NO_LABEL, SIBLING),
        ["No node carries label topology/rack of key rack.", WHOLE.format("the whole task group")],
    ),
    "a zone around other sets fails as a part of the whole": (
        ("a b c d: zone! z, rack! r", "e f: zone! z, rack! q", "g h: zone! y"),
        (OWN, SIBLING, SIBLING),
        [WHOLE.format("the whole task group")],
    ),
}


@pytest.mark.parametrize("phrase", TEXTS)
def test_texts_of_a_tree_are_read_as_far_as_they_are_true(phrase):
    tasks, texts, want = TEXTS[phrase]
    rendered = render(gang(*tasks))
    reasons = Kubernetes().waiting_reasons(
        Waiting(
            placed=False,
            expected=tuple(group["metadata"]["name"] for group in rendered.pod_groups),
            pod_groups=tuple(starmap(_unplaced, zip(rendered.pod_groups, texts, strict=True))),
            pods=8,
            pods_expected=8,
            levels=POOL,
            sets=rendered.sets,
        )
    )
    assert list(dict.fromkeys(reason.message for reason in reasons)) == want


def _unplaced(group, message):
    condition = {"type": "PodGroupInitiallyScheduled", "status": "False", "message": message}
    return {**group, "status": {"conditions": [condition]}}


BOUND, WAITING = {"spec": {"nodeName": "n"}}, {"spec": {}}
TRIALS = {
    "a pod was bound beside one that fits nowhere": ([BOUND, WAITING], [], False),
    "the composite could place one group of two": ([WAITING, WAITING], [SIBLING], True),
    "not even the set that fits was placed": (
        [WAITING, WAITING],
        [SIBLING.replace("1 scheduled", "0 scheduled")],
        None,
    ),
    "nothing was said": ([WAITING, WAITING], [], None),
}


@pytest.mark.parametrize("phrase", TRIALS)
def test_a_trial_of_composites_shows(phrase):
    pods, texts, want = TRIALS[phrase]
    groups = [_unplaced({"metadata": {"name": "g"}}, text) for text in texts]
    assert is_held(pods, groups) is want


def test_pods_of_a_pinned_set_ask_for_the_labels_of_its_domain_and_its_group_stays_as_it_was():
    asked = gang("a b: zone! z, rack! r", "c: zone! z, rack! q")
    free = render(asked)
    rendered = render(asked, form=GangForm(pins=(Pin((("zone", "z"), ("rack", "r")), ("z1", "s1", "r1")),)))
    assert (rendered.parents, rendered.pod_groups) == (free.parents, free.pod_groups)
    labels = {"topology/zone": "z1", "topology/spine": "s1", "topology/rack": "r1"}
    assert {task: parts.node_labels for task, parts in rendered.pods.items()} == {
        "a": labels,
        "b": labels,
        "c": {},
    }


def test_pods_of_a_domain_need_the_labels_of_the_broader_keys():
    """The scheduler takes a rack for the nodes with one label value, whatever zone they are in, or none."""
    rendered = render(gang("a: rack! r", "b: zone! z", "c"))
    present = {task: parts.labels_present for task, parts in rendered.pods.items()}
    assert present == {"a": ("topology/zone", "topology/spine"), "b": (), "c": ()}
    flat = Kubernetes().render(request(gang("a: rack! r"), POOL, version=SchedulerVersion(1, 37)))
    assert flat.pods["a"].labels_present == ()
