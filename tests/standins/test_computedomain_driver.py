"""What NVIDIA's driver does when things are slow or broken, each test named after the file that shows it."""

import dataclasses

import pytest

from localcluster.api import Access
from localcluster.standins.computedomain import values
from localcluster.standins.computedomain.actions import Action
from localcluster.standins.computedomain.controller import Controller
from localcluster.standins.computedomain.pace import REAL, Bucket
from localcluster.standins.computedomain.plan import Faults, plan
from localcluster.standins.computedomain.values import FINALIZER, Claimant, Domain, Machine, Owned, Use, View

UID, OTHER = "11111111-uid", "22222222-uid"
MARK = values.PREPARED_MARK


def domain(uid=UID, **more):
    values = {"finalizers": (FINALIZER,), "status": "Ready", **more}
    return Domain(namespace="ns", name=f"cd-{uid}", uid=uid, template=f"rct-{uid}", **values)


def owned(uid=UID):
    """All that the controller makes for a domain."""
    daemon, kind = f"computedomain-daemon-{uid}", "ResourceClaimTemplate"
    return (
        Owned(kind, "ns", f"rct-{uid}", uid, (FINALIZER,)),
        Owned(kind, "nvidia-dra-driver-gpu", daemon, uid, (FINALIZER,)),
        Owned("DaemonSet", "nvidia-dra-driver-gpu", daemon, uid, (FINALIZER,)),
    )


def machine(name="n1", *, label=None, daemon="ready", clique="c1"):
    return Machine(name, f"uid-{name}", "10.0.0.1", clique, label, daemon=daemon)


def claimant(*claims, node="n1", references=None, creating=False):
    count = len(claims) if references is None else references
    return Claimant("ns", "p", "uid-p", node, claims, count, (("main", "any"),), creating)


def use(claim="c", *, uid=UID, node="n1"):
    return Use(uid, node, "ns", claim)


def settled(view, faults=None):
    """The view once all that is planned for nodes and status is done, and what is still planned then."""
    for _ in range(5):
        actions = plan(view, faults=faults)
        labels, statuses = {}, {}
        for action in actions:
            if "/nodes/" in action.path:
                labels[action.path.split("/")[-1]] = action.body["metadata"]["labels"][values.LABEL]
            elif "/computedomains/" in action.path and action.path.endswith("/status"):
                statuses[action.body["metadata"]["uid"]] = action.body["status"]
        if not labels and not statuses:
            return view, actions
        machines = (
            dataclasses.replace(each, domain=labels.get(each.name, each.domain)) for each in view.machines
        )
        domains = (
            dataclasses.replace(
                each,
                status=statuses[each.uid]["status"],
                members=tuple(
                    values.Member(n["name"], n["ipAddress"], n["cliqueID"], n["index"], n["status"])
                    for n in statuses[each.uid]["nodes"]
                ),
            )
            if each.uid in statuses
            else each
            for each in view.domains
        )
        view = dataclasses.replace(view, machines=tuple(machines), domains=tuple(domains))
    raise AssertionError("it never settles")


def started(actions):
    return any(MARK in (action.body or {}).get("metadata", {}).get("annotations", {}) for action in actions)


def refusals(actions):
    return [action.body["message"] for action in actions if action.path.endswith("/events")]


def entries(view):
    return [(member.name, member.status) for each in view.domains for member in each.members]


def view_of(**more):
    return View(**{"domains": (domain(),), "owned": owned(), "machines": (machine(),), **more})


def test_device_state_go_a_pod_is_started_once_the_daemon_of_its_node_is_ready():
    view = view_of(uses=(use(),), claimants=(claimant("c"),))
    assert not started(plan(view)), "the node has no label yet"

    view, actions = settled(view)

    assert entries(view) == [("n1", "Ready")]
    assert started(actions)
    assert refusals(actions) == []


@pytest.mark.parametrize(
    ("daemon", "want"), [("not-ready", [("n1", "NotReady")]), ("absent", [])], ids=["not ready", "absent"]
)
def test_device_state_go_a_pod_waits_in_container_creating_for_a_daemon(daemon, want):
    view = view_of(machines=(machine(daemon=daemon),), uses=(use(),), claimants=(claimant("c"),))

    view, actions = settled(view)

    assert entries(view) == want
    assert not started(actions)
    waiting = [each.body["status"] for each in actions if each.path.endswith("/pods/p/status")]
    if daemon == "not-ready":
        assert [text.endswith("current node not ready in ComputeDomain") for text in refusals(actions)] == [
            True
        ]
        assert waiting[0]["containerStatuses"][0]["state"] == {"waiting": {"reason": "ContainerCreating"}}
        known = dataclasses.replace(view, claimants=(claimant("c", creating=True),))
        assert plan(known) == (), "it is reported once"


@pytest.mark.parametrize("alive", [True, False], ids=["a living domain", "a domain that is gone"])
def test_computedomain_go_a_node_that_carries_the_label_of_another_domain_is_refused(alive):
    others = (domain(OTHER),) if alive else ()
    view = View(
        domains=(domain(), *others),
        owned=(*owned(), *(owned(OTHER) if alive else ())),
        machines=(machine(label=OTHER),),
        uses=(use(), *((use("old", uid=OTHER),) if alive else ())),
        claimants=(claimant("c"),),
    )

    view, actions = settled(view)

    assert view.machines[0].domain == OTHER
    assert not started(actions)
    (text,) = refusals(actions)
    assert text.endswith("label already exists for a different ComputeDomain")


def test_computedomain_go_the_label_of_a_dead_domain_goes_with_the_next_sweep_and_then_the_pod_starts():
    view = view_of(machines=(machine(label="dead"),), uses=(use(),), claimants=(claimant("c"),))

    (swept,) = [each for each in plan(view, sweep=True) if "/nodes/" in each.path]
    assert swept.body["metadata"]["labels"] == {values.LABEL: None}

    _, actions = settled(dataclasses.replace(view, machines=(machine(),)))
    assert started(actions)


def test_computedomain_go_a_pod_whose_domain_is_gone_is_never_started():
    view = View(machines=(machine(),), uses=(use(),), claimants=(claimant("c"),))

    actions = plan(view)

    assert not started(actions)
    assert "ComputeDomain not found" in refusals(actions)[0]


def test_kubelet_a_pod_waits_for_all_its_claims_and_others_than_channels_are_prepared_at_once():
    nic = Use(None, None, "ns", "nic")
    some = view_of(uses=(nic,), claimants=(claimant("nic", references=2),))
    assert not started(plan(some)), "the second claim is not made yet"

    allocating = view_of(uses=(nic, Use(UID, None, "ns", "c")), claimants=(claimant("nic", "c"),))
    assert not started(plan(allocating)), "the watch has not shown the allocation yet"

    plain = view_of(uses=(nic,), claimants=(claimant("nic"),))
    assert started(plan(plain))


@pytest.mark.parametrize(
    ("daemon", "want"), [("not-ready", [("n1", "NotReady"), ("n2", "Ready")]), ("absent", [("n2", "Ready")])]
)
def test_cdstatus_go_a_domain_that_loses_a_node_while_its_pods_run(daemon, want):
    uses = (use("c1"), use("c2", node="n2"))
    running, _ = settled(view_of(machines=(machine(), machine("n2")), uses=uses))
    assert entries(running) == [("n1", "Ready"), ("n2", "Ready")]

    lost = dataclasses.replace(running.machines[0], daemon=daemon)
    after, _ = settled(dataclasses.replace(running, machines=(lost, running.machines[1])))

    assert entries(after) == want
    assert after.domains[0].status == ("NotReady" if daemon == "not-ready" else "Ready")


@pytest.mark.parametrize(("number", "ready"), [(0, False), (1, False), (2, True), (3, False)])
def test_compute_domain_daemon_go_without_dns_names_daemons_need_the_exact_number_of_nodes(number, ready):
    """``MaybePushNodesUpdate``: peers are made known only while the entries are as many as ``numNodes``."""
    without = Faults(dns_names=False)
    empty = view_of(domains=(domain(num_nodes=number, status=None),))
    assert settled(empty, without)[0].domains[0].status == ("NotReady" if number else "Ready")

    pods = (claimant("c1"), claimant("c2", node="n2"))
    uses = (use("c1"), use("c2", node="n2"))
    view = dataclasses.replace(empty, machines=(machine(), machine("n2")), uses=uses, claimants=pods)
    view, actions = settled(view, without)

    assert {status for _, status in entries(view)} == ({"Ready"} if ready else {"NotReady"})
    assert started(actions) is ready


def test_compute_domain_daemon_go_a_node_without_clique_runs_no_daemon_and_is_ready():
    view = view_of(machines=(machine(clique=""),), uses=(use(),))

    assert entries(settled(view, Faults(dns_names=False))[0]) == [("n1", "Ready")]


@pytest.mark.parametrize(
    ("mark", "setting", "gone", "want"),
    [
        (None, 600.0, None, True),
        (None, 600.0, 599.0, False),
        (None, 600.0, 600.0, True),
        (60.0, 0.0, 59.0, False),
        (60.0, 600.0, 61.0, True),
        (None, 0.0, 0.0, True),
    ],
    ids=["new", "early", "due", "a mark", "a mark that is due", "fast"],
)
def test_resourceclaimtemplate_go_a_template_removed_by_hand_comes_back_late(mark, setting, gone, want):
    missing = {} if gone is None else {UID: gone}
    view = view_of(domains=(domain(restore_after=mark),), owned=owned()[1:], missing=missing)

    actions = plan(view, faults=Faults(restore_after=setting))

    assert [each.verb for each in actions] == (["POST"] if want else [])


def test_kubeclient_go_five_requests_a_second_and_ten_at_once():
    now = [100.0]
    bucket = Bucket(REAL, clock=lambda: now[0])

    assert [bucket.take() for _ in range(11)] == [True] * 10 + [False]
    assert bucket.wait() == pytest.approx(0.2)
    now[0] += 1.0
    assert [bucket.take() for _ in range(6)] == [True] * 5 + [False]
    now[0] += 3600
    assert [bucket.take() for _ in range(11)] == [True] * 10 + [False]


@pytest.fixture
def controller(tmp_path, monkeypatch):
    """A controller at its real pace that is not started, and what it has sent."""
    sent = []
    made = Controller(Access("https://127.0.0.1:1", tmp_path / "ca", "token"), pace=REAL)
    monkeypatch.setattr(made, "_act", lambda action: sent.append(action.path) or True)
    yield made, sent
    made.pool.shutdown()


def test_kubeclient_go_the_controller_sends_what_its_pace_allows_in_order_and_plugins_all(controller):
    made, sent = controller
    own = [Action("DELETE", f"/own/{number}") for number in range(12)]
    plugins = [Action("DELETE", f"/plugin/{number}", by="plugin") for number in range(12)]

    done = made._carry_out([*own, *plugins])

    assert sorted(path for path in sent if "plugin" in path) == sorted(each.path for each in plugins)
    assert [path for path in sent if "own" in path] == [each.path for each in own[:10]]
    assert len(done) == 22


def test_resourceclaimtemplate_go_only_a_template_that_was_there_counts_as_removed(controller):
    made, _ = controller
    whole, gone = view_of(), view_of(owned=owned()[1:])

    assert made._missing(gone, 10.0) == {}, "it is new"
    assert made._missing(whole, 20.0) == {}
    assert made._missing(gone, 30.0) == {UID: 0.0}
    assert made._missing(gone, 640.0) == {UID: 610.0}
    assert made._missing(whole, 650.0) == {}
    assert made._missing(View(), 660.0) == {}


def test_nodes_go_what_the_plugins_do_on_their_nodes_is_not_held_up_by_the_controller():
    """The plugin labels its node and publishes its slice; the controller removes a dead domain's labels."""
    nvlink = dataclasses.replace(machine(), nvlink=True)
    view = view_of(machines=(nvlink,), uses=(use(),), claimants=(claimant("c"),))
    assert {each.by for each in plan(view) if "/nodes/" in each.path or "slices" in each.path} == {"plugin"}

    ending = view_of(domains=(domain(deleting=True),), machines=(machine(label=UID),))
    gone = tuple(dataclasses.replace(each, deleting=True) for each in ending.owned)
    (label,) = plan(dataclasses.replace(ending, owned=gone))
    assert (label.path, label.by) == ("/api/v1/nodes/n1", "controller")


def test_pods_are_read_with_their_claims_while_they_wait_on_their_node():
    body = {
        "metadata": {"namespace": "ns", "name": "p", "uid": "u"},
        "spec": {
            "nodeName": "n1",
            "containers": [{"name": "main", "image": "any"}],
            "resourceClaims": [
                {"name": "a", "resourceClaimTemplateName": "t"},
                {"name": "b", "resourceClaimName": "mine"},
                {"name": "unneeded", "resourceClaimTemplateName": "t"},
                {"name": "late", "resourceClaimTemplateName": "t"},
            ],
        },
        "status": {
            "phase": "Pending",
            "resourceClaimStatuses": [{"name": "a", "resourceClaimName": "made"}, {"name": "unneeded"}],
        },
    }

    pod = values.claimant(body)

    assert (pod.claims, pod.references) == (("made", "mine"), 3)
    assert values.claimant({**body, "status": {"phase": "Running"}}) is None
    assert values.claimant({**body, "metadata": {**body["metadata"], "annotations": {MARK: "true"}}}) is None
