"""Capabilities as data, and what is refused when one is missing."""

import pytest

from scheduling.backends.default import Default
from scheduling.backends.kai import Kai
from scheduling.backends.kai.version import version_from_schema
from scheduling.backends.kubernetes import Kubernetes
from scheduling.backends.registry import BUILT_IN
from scheduling.capabilities import (
    MEANING,
    Capabilities,
    Capability,
    SchedulerVersion,
    check_pool_levels,
    check_queue_settings,
    check_share,
)
from scheduling.errors import UnsupportedCapability
from scheduling.gang.checks import check_gang, shared_values
from tests.unit.scheduling.build import gang, levels

POOL = levels("zone rack")
EVERYTHING = frozenset(Capability)


def having(*missing: str) -> Capabilities:
    return Capabilities("toy", EVERYTHING - set(missing), 16)


def check(asked, *missing, domains=None, pool=POOL, unsupported_preferred="refuse"):
    return check_gang(
        asked,
        pool,
        capabilities=having(*missing),
        domains=domains,
        unsupported_preferred=unsupported_preferred,
    )


def test_every_capability_has_words():
    assert set(MEANING) == set(Capability)


@pytest.mark.parametrize("backend", [scheduler.rendering for scheduler in BUILT_IN], ids=lambda b: b.name)
def test_a_version_too_old_holds_nothing(backend):
    assert not backend.capabilities(SchedulerVersion(0, 1)).held
    assert backend.capabilities(None) == backend.capabilities(backend.oldest)


def test_kai_holds_everything_and_default_nothing():
    assert Kai().capabilities(SchedulerVersion(0, 17)).held == EVERYTHING
    assert Kai().capabilities(None).held == EVERYTHING - {Capability.QUEUE_PREEMPTION_DELAY}
    assert Default().capabilities(None).held == {"gang.replace_task"}
    alone = {"gang", "gang.replace_task", "topology.both_types", "topology.mixed_pods"}
    alone |= {"topology.preferred", "topology.required"}
    assert Kubernetes().capabilities(SchedulerVersion.parse("1.37")).held == alone
    assert Kubernetes().capabilities(SchedulerVersion.parse_known("1.38 (CompositePodGroup)")).held == {
        *alone,
        "gang.multi_set",
        "topology.equal_sets",
        "topology.nested",
    }


REFUSED = {
    "a required key": ("topology.required", gang("a b: rack! r")),
    "a preferred key": ("topology.preferred", gang("a b: rack? r")),
    "a set in a preferred set": ("topology.nested", gang("a b: zone? z, rack! r", "c: zone? z")),
    "two sets": ("gang.multi_set", gang("a: rack! r", "b: rack! s")),
    "a preference to be relaxed": ("topology.relax_pending", gang("a b: rack? r ~60")),
    "a set and free tasks": ("gang.multi_set", gang("a: rack! r", "b")),
}


def test_sets_in_a_required_set_need_a_tree_or_a_domain_that_the_service_chooses():
    asked = gang("a b: zone! z, rack! r", "c: zone! z")
    faults, _, _ = check(asked, "topology.chosen_domain", "topology.nested", domains=[("z", "r")])
    assert {fault.capability for fault in faults} == {"topology.nested"}
    for capability in ("topology.chosen_domain", "topology.nested"):
        assert check(asked, capability, domains=[("z", "r")])[0] == []


def test_two_required_keys_on_the_same_tasks_need_paths_or_sets_inside_sets():
    asked = gang("a b: zone! z, rack! r")
    faults, _, _ = check(asked, "topology.path_domains", "topology.nested", domains=[("z", "r")])
    assert {fault.capability for fault in faults} == {"topology.path_domains"}
    for capability in ("topology.path_domains", "topology.nested"):
        assert check(asked, capability, domains=[("z", "r")])[0] == []


@pytest.mark.parametrize("phrase", REFUSED)
def test_refused_without_the_capability_alone(phrase):
    capability, asked = REFUSED[phrase]
    faults, _, _ = check(asked, capability, domains=[("z", "r")])
    assert {fault.capability for fault in faults} == {capability}
    assert all(capability in fault.message for fault in faults)
    assert check(asked)[0] == []


def test_preferences_are_refused_wherever_they_are_written():
    faults, _, _ = check(gang("a: rack? r", "b: zone! z", "c: rack? s"), "topology.preferred")
    assert [fault.path for fault in faults] == [
        ("tasks", "a", "topology", 0, "requirementType"),
        ("tasks", "c", "topology", 0, "requirementType"),
    ]


def test_an_ignored_preference_is_told_by_name_and_leaves_nothing_behind():
    asked = gang("a b: zone? z, rack! r", "c: zone? z")
    missing = ("topology.preferred", "topology.nested")
    faults, notices, tree = check(asked, *missing, unsupported_preferred="warn")
    assert faults == []
    assert [(notice.code, notice.path) for notice in notices] == [
        ("preference_ignored", ("tasks", "a", "topology", 0)),
        ("preference_ignored", ("tasks", "b", "topology", 0)),
        ("preference_ignored", ("tasks", "c", "topology", 0)),
    ]
    assert all('zone "z"' in notice.message for notice in notices)
    assert [[member.key for member in node.members] for node in tree.root.walk()] == [[], ["rack"]]


def test_sets_below_ignored_preferences_stay_apart():
    """Merged, they would have to share one rack, which nobody asked for."""
    asked = gang("a b: zone? x, rack! r", "c d: zone? y, rack! r")
    tree = check(asked, "topology.preferred", unsupported_preferred="warn")[2]
    assert [sorted(task.name for task in node.tasks) for node in tree.root.sets] == [["a", "b"], ["c", "d"]]


def test_a_scheduler_that_holds_preferences_ignores_none():
    asked = gang("a b: rack? r")
    assert check(asked, unsupported_preferred="warn") == check(asked)


def test_a_requirement_is_never_ignored():
    faults = check(gang("a: zone! z"), "topology.required", unsupported_preferred="warn")[0]
    assert [fault.capability for fault in faults] == ["topology.required"]


def test_faults_of_the_words_and_of_the_scheduler_come_together():
    faults, _, tree = check(gang("a: rak! r", "b: rack? s"), "topology.preferred")
    assert {fault.code for fault in faults} == {"unknown_key", "unsupported_capability"}
    assert tree is None


DOMAINS = {
    "each rack in one zone": ([("a", "r1"), ("a", "r2"), ("b", "r3")], []),
    "one rack name in two zones": ([("a", "r1"), ("b", "r1"), ("b", "r2")], ["r1"]),
    "a node without a zone tells nothing": ([("a", "r1"), (None, "r1")], []),
    "a node without a rack tells nothing": ([("a", None), ("b", None)], []),
}


@pytest.mark.parametrize("phrase", DOMAINS)
def test_values_that_stand_in_two_broader_domains(phrase):
    domains, want = DOMAINS[phrase]
    assert shared_values(domains, 1) == want
    faults, notices, _ = check(gang("a b: rack! r"), "topology.path_domains", domains=domains)
    assert [fault.capability for fault in faults] == (["topology.path_domains"] if want else [])
    assert all(f'"{value}"' in fault.message for fault in faults for value in want)
    assert notices == []


def test_inside_a_required_zone_a_rack_need_not_have_a_name_of_its_own():
    domains = [("a", "r1"), ("b", "r1")]
    asked = gang("a b: zone! z, rack! r", "c: zone! z")
    assert check(asked, "topology.path_domains", domains=domains)[0] == []
    spines = [("a", "s1", "r1"), ("a", "s2", "r1"), ("b", "s3", "r1")]
    (fault,) = check(asked, "topology.path_domains", domains=spines, pool=levels("zone spine rack"))[0]
    assert fault.capability == "topology.path_domains"


def test_with_no_node_known_it_is_accepted_with_a_warning():
    for domains in (None, []):
        faults, (notice,), _ = check(gang("a b: rack! r"), "topology.path_domains", domains=domains)
        assert faults == []
        assert notice.code == "domains_unknown"


def test_the_broadest_key_has_nothing_above_to_be_mistaken_for():
    assert check(gang("a b: zone! z"), "topology.path_domains")[:2] == ([], [])


def test_without_gangs_a_lone_task_needs_no_word():
    assert check(gang("a"), "gang")[1] == []
    (notice,) = check(gang("a b"), "gang")[1]
    assert notice.code == "no_gang"


def test_several_sets_are_refused_where_they_would_be_several_gangs():
    ((fault,), _, _) = check(gang("a: rack! r", "b: rack! s"), "gang.multi_set")
    assert fault.capability == "gang.multi_set"
    assert "falls into 2 sets that must start together" in fault.message


def test_topology_keys_are_refused_on_a_scheduler_without_topology():
    (fault,) = check_pool_levels(POOL, capabilities=Default().capabilities(None), path=("topology_keys",))
    assert fault.path == ("topology_keys",)
    assert fault.capability == "topology.required"
    assert check_pool_levels((), capabilities=Default().capabilities(None), path=()) == []
    for backend in (Kai(), Kubernetes()):
        assert check_pool_levels(POOL, capabilities=backend.capabilities(None), path=()) == []


def test_more_levels_than_the_scheduler_takes_are_refused():
    toy = Capabilities("toy", EVERYTHING, max_levels=1)
    (fault,) = check_pool_levels(POOL, capabilities=toy, path=())
    assert fault.capability == "max_levels"


def schema(*, parent: bool, minimum: bool):
    subgroup = {"name": {}, "minMember": {}, **({"parent": {}} if parent else {})}
    spec = {"subGroups": {"items": {"properties": subgroup}}, **({"minSubGroup": {}} if minimum else {})}
    return {"properties": {"spec": {"properties": spec}}}


def as_crd(bare):
    return {"spec": {"versions": [{"name": "v2alpha2", "served": True, "schema": {"openAPIV3Schema": bare}}]}}


def as_openapi(bare):
    kind = {"group": "scheduling.run.ai", "kind": "PodGroup", "version": "v2alpha2"}
    other = {**kind, "kind": "PodGroupList"}
    return {
        "components": {
            "schemas": {
                "list": {"x-kubernetes-group-version-kind": [other]},
                "one": {**bare, "x-kubernetes-group-version-kind": [kind]},
            }
        }
    }


@pytest.mark.parametrize("shape", [dict, as_crd, as_openapi])
def test_kais_version_is_read_from_the_schema(shape):
    assert str(version_from_schema(shape(schema(parent=True, minimum=False)))) == "0.13"
    assert str(version_from_schema(shape(schema(parent=True, minimum=True)))) == "0.15"
    with pytest.raises(UnsupportedCapability, match=r"KAI 0\.13 or later"):
        version_from_schema(shape(schema(parent=False, minimum=False)))


def test_a_cluster_without_the_scheduler_says_what_is_missing():
    with pytest.raises(UnsupportedCapability, match="KAI is not installed"):
        Kai().version_of(kubernetes="v1.36.3", pod_group_schema=None)
    with pytest.raises(UnsupportedCapability, match="GenericWorkload"):
        Kubernetes().version_of(kubernetes="v1.37.2", pod_group_schema=None)
    with pytest.raises(UnsupportedCapability, match=r"1\.37 or later"):
        Kubernetes().version_of(kubernetes="v1.36.3", pod_group_schema={})
    assert str(Default().version_of(kubernetes="v1.30.1-gke", pod_group_schema=None)) == "1.30"


def test_versions_compare_by_number():
    assert SchedulerVersion.parse("0.9") < SchedulerVersion.parse("v0.13.2") < SchedulerVersion.parse("1.0")
    with pytest.raises(ValueError, match="no version"):
        SchedulerVersion.parse("latest")


def test_a_gate_of_the_scheduler_is_part_of_its_version_and_never_of_its_number():
    plain, gated = (SchedulerVersion.parse_known(text) for text in ("1.37", "1.37 (CompositePodGroup)"))
    assert str(gated) == "1.37 (CompositePodGroup)"
    assert (plain.gates, gated.gates) == (frozenset(), {"CompositePodGroup"})
    assert gated.has(plain)
    assert not plain.has(gated)
    assert not SchedulerVersion.parse("1.38").has(gated)
    assert SchedulerVersion.parse_known("1.38 (CompositePodGroup)").has(gated)
    assert SchedulerVersion.parse("v1.37.2 (CompositePodGroup)").gates == frozenset()


def held(*capabilities):
    return Capabilities("toy", frozenset(capabilities), 16)


def test_a_share_that_the_scheduler_would_ignore_is_refused_field_by_field():
    share = {"guarantee": 8, "maximum": -1, "weight": 2}
    faults = check_share(share, {}, capabilities=held(Capability.QUEUE_GUARANTEE), path=("gpu",))
    assert [(fault.path, fault.capability) for fault in faults] == [
        (("gpu", "weight"), "queue.over_quota_weight")
    ]
    assert "would ignore this" in faults[0].message


def test_a_share_that_was_there_before_does_not_stop_another_change():
    share = {"guarantee": 8, "maximum": 16, "weight": 1}
    assert check_share(share, share, capabilities=held(), path=()) == []
    assert len(check_share({**share, "maximum": 32}, share, capabilities=held(), path=())) == 1


def test_a_setting_of_queues_needs_a_version_that_has_it():
    settings = {"preemption_delay": "5m", "preempt_min_runtime": ""}
    faults = check_queue_settings(settings, {}, capabilities=held(), path=("queue_settings",))
    assert [fault.path for fault in faults] == [("queue_settings", "preemption_delay")]
    assert check_queue_settings(settings, settings, capabilities=held(), path=()) == []


@pytest.mark.parametrize(("version", "want"), [("0.13", False), ("0.15", False), ("0.17", True)])
def test_kai_delays_preemption_from_the_version_whose_schema_has_it(version, want):
    capabilities = Kai().capabilities(SchedulerVersion.parse(version))
    assert (Capability.QUEUE_PREEMPTION_DELAY in capabilities) is want
    assert Capability.QUEUE_PREEMPT_MIN_RUNTIME in capabilities
