"""Between a write and the watch that shows it, the scheduler knows what it has asked for."""

import dataclasses

from localcluster.standins.kai.loop import MEMORY_SECONDS, Memory
from localcluster.standins.kai.values import Binding, Eviction
from tests.standins.worlds import group, pod

NOW = 100.0


def states(pods):
    return {each.name: (each.state, each.node) for each in pods}


def test_a_binding_asked_for_counts_until_the_pod_is_seen_on_its_node():
    waiting = pod("p")
    memory = Memory()
    memory.add([Binding(waiting, "n1", "g")], [], NOW)
    assert states(memory.overlay((waiting,), NOW)) == {"p": ("active", "n1")}

    seen = dataclasses.replace(waiting, state="active", node="n1")
    assert states(memory.overlay((seen,), NOW)) == {"p": ("active", "n1")}
    assert memory.bound == {}


def test_a_refused_binding_is_forgotten_at_once_and_a_lost_one_after_a_while():
    waiting = pod("p")
    memory = Memory()
    memory.add([binding := Binding(waiting, "n1", "g")], [], NOW)
    memory.forget([binding], [])
    assert states(memory.overlay((waiting,), NOW)) == {"p": ("pending", None)}

    memory.add([binding], [], NOW)
    late = NOW + MEMORY_SECONDS
    assert states(memory.overlay((waiting,), late)) == {"p": ("pending", None)}


def test_a_pod_recreated_under_its_name_is_not_taken_for_the_one_that_was_bound():
    memory = Memory()
    memory.add([Binding(pod("p"), "n1", "g")], [], NOW)
    again = dataclasses.replace(pod("p"), uid="another")

    assert states(memory.overlay((again,), NOW)) == {"p": ("pending", None)}


def test_an_evicted_pod_counts_as_leaving_before_its_deletion_is_seen():
    running = pod("p", state="active", node="n1")
    memory = Memory()
    memory.add([], [Eviction(running, group(), "preempted", {})], NOW)

    assert states(memory.overlay((running,), NOW)) == {"p": ("releasing", "n1")}
    assert memory.overlay((), NOW) == ()
    assert memory.deleted == {}
