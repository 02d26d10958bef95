"""The chart grants what ``deploy/rbac`` grants, to its own accounts and in its own namespaces."""

import pytest
import yaml

from localcluster.directories import CHECKOUT
from tests.chart.objects import of_kind
from tests.chart.values import TABLE
from tests.e2e import rights
from tests.e2e.rights import _expanded

RBAC = CHECKOUT / "deploy" / "rbac"
KAI = "kai-scheduler"
"""The namespace of which ``deploy/rbac`` speaks; the chart grants nothing in it unless it is named."""


def granted(objects, *, account):
    """(namespace or none, account, verb, resource) of every rule that is bound."""

    def key(role, name):
        return role["kind"].removesuffix("Binding"), role["metadata"].get("namespace", ""), name

    rules = {
        key(role, role["metadata"]["name"]): role["rules"] for role in of_kind(objects, "ClusterRole", "Role")
    }
    return {
        (binding["metadata"].get("namespace", ""), *right)
        for binding in of_kind(objects, "ClusterRoleBinding", "RoleBinding")
        for subject in binding["subjects"]
        for rule in rules[key(binding, binding["roleRef"]["name"])]
        for right in _expanded(account(subject), rule)
    }


def of_the_repository(namespaces, *, leave_out=(), more=()):
    cluster = [
        obj
        for name in ("cluster.yaml", "preflight.yaml")
        for obj in yaml.safe_load_all((RBAC / name).read_text())
        if obj["metadata"].get("namespace") != KAI
    ]
    files = ("namespace.yaml", *more)
    own = [obj for name in files for obj in yaml.safe_load_all((RBAC / name).read_text())]
    objects = [obj for obj in cluster if obj["metadata"]["name"] not in leave_out]
    plain = granted([*objects, *own], account=lambda subject: subject["name"])
    everywhere = {right for right in plain if not right[0]}
    return everywhere | {(name, *right[1:]) for name in namespaces for right in plain if right[0]}


def of_the_chart(objects):
    prefix = "train-osmo-topology-"

    def account(subject):
        assert (subject["kind"], subject["namespace"]) == ("ServiceAccount", "osmo-system")
        assert subject["name"].startswith(prefix)
        return subject["name"].removeprefix(prefix)

    return granted(objects, account=account)


def test_the_rights_are_those_of_the_repository(render):
    assert of_the_chart(render()) == of_the_repository(["osmo"])


def test_they_are_granted_in_each_namespace_of_tasks_and_no_other(render):
    objects = render({"taskNamespaces": [{"name": "team-a"}, {"name": "team-b", "create": True}]})
    assert of_the_chart(objects) == of_the_repository(["team-a", "team-b"])
    created = [namespace["metadata"]["name"] for namespace in of_kind(objects, "Namespace")]
    assert created == ["team-b"]


def test_the_sight_of_other_tenants_pods_is_a_choice(render):
    objects = render(TABLE["no look at other tenants' pods"])
    assert of_the_chart(objects) == of_the_repository(["osmo"], leave_out=["osmo-topology-others"])


def test_sessions_in_tasks_are_a_choice_in_namespaces_of_tasks_alone(render):
    objects = render({"rights": {"exec": True}})
    assert of_the_chart(objects) == of_the_repository(["osmo"], more=["exec.yaml"])


def test_further_reads_of_the_preflight_are_a_choice(render):
    objects = render({"rights": {"preflight": False}})
    assert of_the_chart(objects) == of_the_repository(["osmo"], leave_out=["osmo-topology-preflight"])


def test_kais_namespace_is_read_where_it_is_named(render):
    more = of_the_chart(render({"rights": {"kaiNamespace": "kai-scheduler"}})) - of_the_repository(["osmo"])
    assert more == {("kai-scheduler", account, "list", "deployments.apps") for account in ("web", "worker")}


def test_kueues_configuration_is_read_where_its_namespace_is_named(render):
    objects = render({"rights": {"kueueNamespace": "kueue-system"}})
    more = of_the_chart(objects) - of_the_repository(["osmo"])
    assert more == {
        ("kueue-system", account, "get", "configmaps kueue-manager-config") for account in ("web", "worker")
    }


def test_queues_of_kueue_are_kept_where_that_is_chosen(render):
    more = of_the_chart(render({"rights": {"kueueQueues": True}})) - of_the_repository(["osmo"])
    assert more == {("", *right) for right in rights.granted("kueue-queues.yaml")}
    assert {account for _, account, _, _ in more} == {"worker"}


def test_gangs_of_others_are_followed_where_that_is_chosen(render):
    more = of_the_chart(render({"rights": {"othersGangs": True, "otherPods": False}}))
    more -= of_the_repository(["osmo"], leave_out=["osmo-topology-others"])
    assert more == {("", *right) for right in rights.granted("others-gangs.yaml")}
    assert {account for _, account, _, _ in more} == {"observer"}


def test_an_administrator_may_make_the_rights_alone(render):
    kinds = {obj["kind"] for obj in render(TABLE["rights made by somebody else"])}
    assert not kinds & {"ClusterRole", "Role", "ClusterRoleBinding", "RoleBinding"}


@pytest.mark.parametrize("other", [{"release": "other"}, {"namespace": "elsewhere"}])
def test_two_releases_share_no_object(render, other):
    def names(**options):
        objects = render({"taskNamespaces": [{"name": "osmo"}]}, **options)
        return {(obj["kind"], obj["metadata"].get("namespace"), obj["metadata"]["name"]) for obj in objects}

    assert not names() & names(**other)
