"""The ComputeDomain stand-in does what NVIDIA's controller does, in its order."""

import dataclasses

import pytest

from localcluster.standins.computedomain.plan import Faults, plan
from localcluster.standins.computedomain.values import (
    FINALIZER,
    LABEL,
    Domain,
    Machine,
    Member,
    Owned,
    Slice,
    Use,
    View,
)

UID = "11111111-uid"
DAEMON = f"computedomain-daemon-{UID}"
DRIVER_NS = "nvidia-dra-driver-gpu"
RCT = "ResourceClaimTemplate"


def domain(**more):
    values = {"finalizers": (FINALIZER,), "status": "Ready", **more}
    return Domain(namespace="ns", name="cd", uid=UID, template="cd-rct", **values)


def owned(kind=RCT, *, name="cd-rct", namespace="ns", uid=UID, finalizers=(FINALIZER,), deleting=False):
    return Owned(kind, namespace, name, uid, finalizers, deleting)


WORKLOAD = owned()
DAEMON_RCT = owned(name=DAEMON, namespace=DRIVER_NS)
DAEMON_SET = owned("DaemonSet", name=DAEMON, namespace=DRIVER_NS)
ALL = (WORKLOAD, DAEMON_RCT, DAEMON_SET)


def gone(*objects):
    return tuple(dataclasses.replace(each, deleting=True) for each in objects)


def told(actions):
    """Verb and last part of the path of each action."""
    return [f"{action.verb} {action.path.split('/')[-1]}" for action in actions]


def statuses(actions):
    return [each.body["status"] for each in actions if each.path.endswith("/status")]


def test_a_new_domain_gets_its_finalizer_before_anything_else():
    (action,) = plan(View(domains=(domain(finalizers=("mine",)),)))

    assert action.verb == "PATCH"
    assert action.body["metadata"]["finalizers"] == ["mine", FINALIZER]


def test_then_its_two_templates_and_its_daemon_set():
    actions = plan(View(domains=(domain(),)))

    assert told(actions) == ["POST resourceclaimtemplates", "POST daemonsets", "POST resourceclaimtemplates"]
    daemon, daemons, workload = (action.body for action in actions)
    assert (daemon["metadata"]["namespace"], daemon["metadata"]["name"]) == (DRIVER_NS, DAEMON)
    assert (daemons["metadata"]["namespace"], daemons["metadata"]["name"]) == (DRIVER_NS, DAEMON)
    assert daemons["spec"]["template"]["spec"]["nodeSelector"] == {LABEL: UID}
    assert (workload["metadata"]["namespace"], workload["metadata"]["name"]) == ("ns", "cd-rct")
    for body in (daemon, daemons, workload):
        assert body["metadata"]["labels"][LABEL] == UID
        assert body["metadata"]["finalizers"] == [FINALIZER]


def test_the_workload_template_claims_the_default_channel_for_this_domain():
    devices = plan(View(domains=(domain(),)))[-1].body["spec"]["spec"]["devices"]

    assert devices["requests"][0]["exactly"]["deviceClassName"] == "compute-domain-default-channel.nvidia.com"
    assert devices["config"][0]["opaque"]["parameters"]["domainID"] == UID


def test_a_name_that_is_taken_is_tried_again_and_again():
    foreign = owned(uid=None)
    of_another_domain = owned(uid="another")

    for other in (foreign, of_another_domain):
        view = View(domains=(domain(),), owned=(other, DAEMON_RCT, DAEMON_SET))
        assert told(plan(view)) == ["POST resourceclaimtemplates"]


def test_a_settled_domain_needs_nothing():
    assert plan(View(domains=(domain(),), owned=ALL)) == ()


@pytest.mark.parametrize(("num_nodes", "want"), [(0, "Ready"), (2, "NotReady")])
def test_a_domain_without_nodes_is_ready_at_once_unless_it_wants_some(num_nodes, want):
    actions = plan(View(domains=(domain(status=None, num_nodes=num_nodes),), owned=ALL))

    assert statuses(actions) == [{"status": want, "nodes": []}]


def test_a_domain_is_ready_even_if_its_template_cannot_be_made():
    view = View(domains=(domain(status=None),), owned=(owned(uid=None), DAEMON_RCT, DAEMON_SET))

    assert statuses(plan(view)) == [{"status": "Ready", "nodes": []}]


def machines(**domains):
    """Two nodes of clique c1, one of c2 and one without; keyword: node -> uid in its label."""
    cliques = {"n1": "c1", "n2": "c1", "n3": "c2", "n4": ""}
    return tuple(
        Machine(name, f"uid-{name}", f"10.0.0.{name[1]}", clique, domains.get(name))
        for name, clique in cliques.items()
    )


def uses(*nodes, uid=UID):
    return tuple(Use(uid, node) for node in nodes)


def test_nodes_are_those_with_a_claim_in_use_with_an_index_per_clique():
    view = View(domains=(domain(),), owned=ALL, machines=machines(), uses=uses("n4", "n3", "n2", "n1"))

    actions = plan(view)

    labels = {a.path.split("/")[-1]: a.body["metadata"]["labels"] for a in actions if "/nodes/" in a.path}
    assert labels == {name: {LABEL: UID} for name in ("n1", "n2", "n3", "n4")}
    (status,) = statuses(actions)
    assert [(n["name"], n["cliqueID"], n["index"]) for n in status["nodes"]] == [
        ("n1", "c1", 0),
        ("n2", "c1", 1),
        ("n3", "c2", 0),
        ("n4", "", -1),
    ]


def test_an_index_is_kept_while_its_node_stays():
    members = (Member("n2", "10.0.0.2", "c1", 0),)
    view = View(
        domains=(domain(members=members),), owned=ALL, machines=machines(n2=UID), uses=uses("n1", "n2")
    )

    (status,) = statuses(plan(view))
    assert [(n["name"], n["index"]) for n in status["nodes"]] == [("n1", 1), ("n2", 0)]


def test_a_node_is_let_go_when_its_last_claim_is_gone():
    members = (Member("n1", "10.0.0.1", "c1", 0),)
    view = View(domains=(domain(members=members),), owned=ALL, machines=machines(n1=UID))

    actions = plan(view)

    assert [a.body["metadata"]["labels"] for a in actions if "/nodes/" in a.path] == [{LABEL: None}]
    assert statuses(actions) == [{"status": "Ready", "nodes": []}]


def test_a_node_that_serves_another_living_domain_does_not_join():
    other = dataclasses.replace(domain(), uid="other", name="other", template="other-rct")
    view = View(
        domains=(domain(), other),
        owned=(*ALL, *(dataclasses.replace(each, domain="other") for each in ALL)),
        machines=machines(n1="other"),
        uses=(*uses("n1"), *uses("n1", uid="other")),
    )

    for status in statuses(plan(view)):
        assert [node["name"] for node in status["nodes"]] == ["n1"]
    assert not [a for a in plan(view) if "/nodes/" in a.path]


TEARDOWN = [
    ("everything is there", ALL, {"n1": UID}, ["DELETE cd-rct"]),
    (
        "the workload's template is going",
        (*gone(WORKLOAD), DAEMON_RCT, DAEMON_SET),
        {"n1": UID},
        [f"DELETE {DAEMON}", f"DELETE {DAEMON}"],
    ),
    ("all objects are going", gone(*ALL), {"n1": UID}, ["PATCH n1"]),
    ("no node is labelled", gone(*ALL), {}, ["PATCH cd-rct"]),
    (
        "the workload's template has lost its finalizer but is seen still",
        (*gone(dataclasses.replace(WORKLOAD, finalizers=())), *gone(DAEMON_RCT, DAEMON_SET)),
        {},
        [],
    ),
    ("it is gone", gone(DAEMON_RCT, DAEMON_SET), {}, [f"PATCH {DAEMON}", f"PATCH {DAEMON}"]),
    ("only the domain is left", (), {}, ["PATCH cd"]),
]


@pytest.mark.parametrize(("step", "objects", "labels", "want"), TEARDOWN, ids=[each[0] for each in TEARDOWN])
def test_deletion_goes_step_by_step_and_waits_for_no_pod(step, objects, labels, want):
    view = View(
        domains=(domain(deleting=True),),
        owned=objects,
        machines=machines(**labels),
        uses=uses("n1", "n2"),
    )

    assert told(plan(view)) == want


def test_a_domain_that_never_got_the_finalizer_is_left_to_vanish():
    assert plan(View(domains=(domain(deleting=True, finalizers=()),), owned=ALL)) == ()


def test_a_foreign_finalizer_stays_when_ours_comes_off():
    (action,) = plan(View(domains=(domain(deleting=True, finalizers=("mine", FINALIZER)),)))

    assert action.body["metadata"]["finalizers"] == ["mine"]


def test_faults_can_be_switched_on():
    stuck = Faults(stuck_finalizer=True)
    assert plan(View(domains=(domain(deleting=True),)), faults=stuck) == ()

    absent = Faults(absent_template=True)
    assert plan(View(domains=(domain(),), owned=(DAEMON_RCT, DAEMON_SET)), faults=absent) == ()


def test_a_domain_recreated_under_its_name_is_another_domain():
    again = dataclasses.replace(domain(), uid="22222222-uid")
    actions = plan(View(domains=(again,), owned=ALL))

    assert len([a for a in actions if a.verb == "POST"]) == 3, "what carries the old uid is not its own"


def test_leftovers_are_swept_only_when_asked():
    view = View(owned=(WORKLOAD, owned(uid=None, name="foreign")), machines=machines(n1=UID))
    assert plan(view) == ()

    assert told(plan(view, sweep=True)) == ["PATCH n1", "DELETE cd-rct", "PATCH cd-rct"]


def test_each_nvlink_node_publishes_one_channel_and_the_daemons_device():
    nvlink = tuple(dataclasses.replace(each, nvlink=each.name == "n1") for each in machines())

    (action,) = plan(View(machines=nvlink))

    spec = action.body["spec"]
    assert spec["nodeName"] == "n1"
    assert [device["name"] for device in spec["devices"]] == ["channel-0", "daemon-0"]
    assert spec["devices"][0]["attributes"] == {"type": {"string": "channel"}, "id": {"int": 0}}


def test_the_slice_of_a_node_that_is_gone_is_withdrawn_and_others_slices_are_not():
    slices = (Slice("s1", "n9", "compute-domain.nvidia.com"), Slice("s2", "n9", "gpu.nvidia.com"))

    assert told(plan(View(slices=slices))) == ["DELETE s1"]
