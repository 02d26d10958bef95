"""The start barrier of a task group: who gets it, what is rendered, and how its end is read."""

import base64
from types import SimpleNamespace

import pytest

import barrier
from pools.documents.backend import BarrierSettings
from scheduling import names
from scheduling.errors import Notice
from tests.builders.pods import NOW, ended, placed, pod, read_pod
from tests.unit.lifecycle.values import GROUP, group, one_try, placement
from workflows.admission.barrier_choice import MOST_TASKS, start_barrier
from workflows.explain.obstacles import BarrierWait
from workflows.lifecycle.pod_status import waits_at_barrier
from workflows.manifests.group import Renderer, render_group
from workflows.manifests.start_barrier import ended_text
from workflows.spec.syntax import RESERVED_TASKS, folded_name
from workflows.spec.workflow_spec import GroupSpec
from workflows.values.observation import ENDED_ANNOTATION, see_pod
from workflows.values.placement import File, FrozenTemplate, GroupPlacement, StartBarrier

BARRIER = StartBarrier(image="example.com/osmo:1", command=barrier.COMMAND, limit=1440.0)
TASKS = [one_try("Lead", 0, cpu=4, memory="16Gi"), one_try("b", 1), one_try("c", 2)]
HOSTS = [names.hostname(task.task_uuid) for task in TASKS]


def pods(tasks=TASKS, **changes):
    return render_group(group(tasks, start_barrier=BARRIER, **changes)).pods


def own(pod):
    return pod["spec"]["initContainers"][-1]


def test_each_pod_of_a_group_gets_it_last_and_bound_to_nothing():
    init = own(pods()["b"])
    assert (init["name"], init["image"]) == ("osmo-start-barrier", "example.com/osmo:1")
    security = init["securityContext"]
    assert (security["runAsNonRoot"], security["readOnlyRootFilesystem"]) == (True, True)
    assert security["capabilities"] == {"drop": ["ALL"]}
    assert not security["allowPrivilegeEscalation"]


def test_it_is_no_root_where_a_template_makes_the_pod_one():
    template = FrozenTemplate(pod={"spec": {"securityContext": {"runAsUser": 0}}})
    security = own(pods(templates={"": template})["b"])["securityContext"]
    assert (security["runAsUser"], security["runAsNonRoot"]) == (65532, True)
    assert "runAsUser" not in own(pods()["b"])["securityContext"]


def test_it_is_started_with_what_it_compares():
    assert own(pods()["b"])["command"] == [
        *("python", "-S", "-m", "barrier"),
        *("--peers", "/run/osmo-start-barrier/peers", "--ended", "/run/osmo-start-barrier/ended"),
        *("--host", HOSTS[1], "--domain", f"{names.headless_service(GROUP)}.osmo.svc", "--limit", "1440"),
    ]


def test_all_peers_stand_in_one_secret_of_the_group():
    objects = render_group(group(TASKS, start_barrier=BARRIER))
    (volume,) = objects.pods["c"]["spec"]["volumes"]
    source = volume["projected"]["sources"][0]["secret"]
    (secret,) = objects.secrets
    assert secret["metadata"]["name"] == source["name"]
    text = base64.b64decode(secret["data"][source["items"][0]["key"]]).decode()
    assert text == f"{HOSTS[0]} Lead\n{HOSTS[1]} b\n{HOSTS[2]} c\n"


def test_it_asks_for_no_kind_of_resource_that_its_task_does_not_ask_for():
    by_task = pods([TASKS[0], one_try("b", 1, memory="1Gi"), one_try("c", 2, gpu=0)])
    amounts = {"cpu": "100m", "memory": "64Mi"}
    assert own(by_task["Lead"])["resources"] == {"requests": amounts, "limits": amounts}
    assert own(by_task["b"])["resources"]["limits"] == {"memory": "64Mi"}
    assert "resources" not in own(by_task["c"])


@pytest.mark.parametrize("changes", [{}, {"start_barrier": BARRIER}])
def test_a_group_of_one_task_or_without_it_is_as_before(changes):
    tasks = TASKS[:1] if changes else TASKS
    objects = render_group(group(tasks, **changes))
    assert not objects.secrets
    assert "initContainers" not in objects.pods["Lead"]["spec"]


def test_it_stands_behind_the_init_containers_of_a_template():
    template = FrozenTemplate(pod={"spec": {"initContainers": [{"name": "warm", "image": "x"}]}})
    spec = pods(templates={"": template})["b"]["spec"]
    assert [container["name"] for container in spec["initContainers"]] == ["warm", "osmo-start-barrier"]


def test_a_replacement_does_not_wait_for_tasks_that_have_ended():
    renderer = Renderer(group(TASKS, start_barrier=BARRIER))
    first, later = renderer.pod(TASKS[1]), renderer.pod(TASKS[1], ended={"Lead", "c"})
    assert "annotations" not in first["metadata"] or ENDED_ANNOTATION not in first["metadata"]["annotations"]
    assert later["metadata"]["annotations"][ENDED_ANNOTATION].split() == sorted([HOSTS[0], HOSTS[2]])
    assert later["spec"] == first["spec"]


def test_it_is_frozen_with_its_group():
    frozen = placement(start_barrier=BARRIER)
    assert GroupPlacement.from_json(frozen.to_json()) == frozen


def test_its_secret_is_none_that_its_group_has_without_it():
    """A Secret that exists is not written again, and a pod waits for the keys that it mounts."""
    tasks = [one_try("a", 0, files=(File(path="/a", contents="x"),)), *TASKS[1:]]
    older = {secret["metadata"]["name"] for secret in render_group(group(tasks)).secrets}
    objects = render_group(group(tasks, start_barrier=BARRIER))
    source = objects.pods["c"]["spec"]["volumes"][-1]["projected"]["sources"][0]["secret"]
    assert source["name"] not in older
    assert older < {secret["metadata"]["name"] for secret in objects.secrets}


def test_the_ended_tasks_of_the_largest_group_with_it_have_room_in_a_pod():
    """All annotations of an object together have 256 KiB."""
    tasks = [one_try(f"t{number}", number) for number in range(MOST_TASKS)]
    assert len(ended_text(tasks)) < 128 * 1024


class TestAdmission:
    SETTINGS = BarrierSettings(image="i", command=("c",), limit=None)

    @staticmethod
    def admitted(settings=SETTINGS, *, tasks=4, together=True, **changes):
        spec = GroupSpec(
            **{"name": "g", "path": ("groups", 0), "barrier": True, "ignore_nonlead_status": True, **changes},
            tasks=(None,) * tasks,
        )
        facts = SimpleNamespace(
            start_barrier=settings, terms=SimpleNamespace(backend="east", scheduler_type="default")
        )
        return start_barrier(spec, facts, start_timeout=1800.0, starts_together=together)

    def test_a_gang_gets_it_by_default_and_it_ends_before_the_start_timeout(self):
        assert self.admitted() == (StartBarrier(image="i", command=("c",), limit=1440.0), None)

    @pytest.mark.parametrize(("limit", "want"), [(60.0, 60.0), (1800.0, 1440.0)])
    def test_a_limit_of_the_backend_may_only_be_shorter(self, limit, want):
        settings = BarrierSettings(image="i", command=("c",), limit=limit)
        assert self.admitted(settings)[0].limit == want

    @pytest.mark.parametrize(
        "changes",
        [{"tasks": 1}, {"barrier": False}, {"together": False}, {"settings": None}, {"tasks": 2001}],
    )
    def test_a_group_without_a_barrier_hears_nothing_without_asking(self, changes):
        assert self.admitted(**changes) == (None, None)

    @pytest.mark.parametrize(
        ("changes", "because"),
        [
            ({"settings": None}, 'backend "east" has no image for a start barrier'),
            ({"tasks": MOST_TASKS + 1}, "a start barrier serves at most 2,000 tasks"),
        ],
    )
    def test_a_group_that_asks_for_a_barrier_and_gets_none_hears_why(self, changes, because):
        admitted, notice = self.admitted(asks_barrier=True, **changes)
        assert admitted is None
        assert isinstance(notice, Notice)
        assert (notice.code, notice.path) == ("not_carried_out", ("groups", 0, "barrier"))
        assert because in notice.message

    def test_tasks_that_are_placed_one_by_one_get_it_with_a_warning_if_they_ask(self):
        admitted, notice = self.admitted(together=False, asks_barrier=True)
        assert admitted is not None
        assert notice.code == "barrier_alone"


def barrier_pod(phase, state, **changes):
    init = [{"name": "osmo-start-barrier", "state": state}]
    main = {"waiting": {"reason": "PodInitializing"}}
    return pod(phase, state=main, initContainerStatuses=init, **changes)


MISSING = "After 24 min 1 of 7 peers had no address: rank-3."
READINGS = {
    "a peer never came": (
        ended(barrier.NO_ADDRESS, message=MISSING),
        ("FAILED_START_TIMEOUT", 3005, f"Its start barrier ended without its peers. {MISSING}"),
    ),
    "its files cannot be read": (
        ended(barrier.MISCONFIGURED, message="no line"),
        ("FAILED_START_ERROR", 3003, "Its start barrier failed with exit code 78: no line"),
    ),
    "its command does not exist": (
        ended(127, reason="StartError"),
        ("FAILED_START_ERROR", 3003, "Its start barrier failed with exit code 127: StartError"),
    ),
}


@pytest.mark.parametrize(("state", "want"), READINGS.values(), ids=READINGS)
def test_the_end_of_a_barrier_is_explained(state, want):
    reading = read_pod(barrier_pod("Failed", state), now=NOW)
    assert (reading.status, reading.code, reading.message) == want


def test_a_task_whose_barrier_succeeded_is_read_by_its_own_container():
    status = [{"name": "osmo-start-barrier", "state": ended(0, reason="Completed")}]
    reading = read_pod(pod("Failed", state=ended(3), initContainerStatuses=status), now=NOW)
    assert (reading.status, reading.code) == ("FAILED", 3)


def test_a_task_at_its_barrier_initializes_and_a_late_one_says_what_it_waited_for():
    state = {"running": {"startedAt": "2026-01-01T11:00:00Z"}}
    fresh, late = (barrier_pod("Pending", state, conditions=[placed(minutes)]) for minutes in (5, 31))
    assert waits_at_barrier(fresh)
    assert read_pod(fresh, now=NOW).status == "INITIALIZING"
    reading = read_pod(late, now=NOW)
    assert reading.status == "FAILED_START_TIMEOUT"
    assert reading.message.endswith("Its start barrier still waits for the addresses of its peers.")


def test_the_waiting_reason_names_who_waits_and_who_is_missing():
    wait = BarrierWait(tasks=("a", "b"), live=3, without_address=("c",))
    assert wait.reason.sentence == (
        "2 of 3 tasks wait at the start barrier for the addresses of their peers: a and b. "
        "Without an address yet: c."
    )
    alone = BarrierWait(tasks=("a",), live=3, without_address=())
    assert alone.reason.sentence == (
        "1 of 3 tasks waits at the start barrier for the addresses of its peers: a. "
        "All pods have addresses, which their DNS does not show yet."
    )


def test_the_observer_keeps_a_digest_of_the_peers_that_a_pod_knows_as_ended():
    first = Renderer(group(TASKS, start_barrier=BARRIER)).pod(TASKS[1], ended={"Lead"})
    first["metadata"]["uid"] = "u"
    assert len(see_pod(first).digest["ended"]) == 16


def test_no_task_has_the_name_of_its_container():
    assert folded_name("OSMO_start-barrier") in RESERVED_TASKS
