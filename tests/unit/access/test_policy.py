"""The one decision: which actions a caller's roles grant, and on what."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduling.errors import InvalidSpec
from web.policy import (
    BUILT_IN,
    KINDS,
    POOL_USE,
    Action,
    Grants,
    Statement,
    allowed,
    read_statements,
    statements_of,
)

CREATE, READ, TOKEN = Action.WORKFLOW_CREATE, Action.WORKFLOW_READ, Action.AUTH_TOKEN
UPDATE = Action.CONFIG_UPDATE


def on(actions, resources):
    return [Statement(tuple(actions.split()), tuple(resources.split()))]


@pytest.mark.parametrize(
    ("action", "resource", "policies", "want"),
    [
        (CREATE, "pool/a", [], False),
        (CREATE, "pool/a", on("workflow:Create", "pool/a"), True),
        (READ, "pool/a", on("workflow:Create", "pool/a"), False),
        (READ, "pool/a", on("workflow:*", "pool/a"), True),
        (UPDATE, "pool/a", on("workflow:*", "pool/a"), False),
        (CREATE, "pool/ab", on("workflow:*", "pool/a"), False),
        (CREATE, "pool/A", on("workflow:*", "pool/a"), False),
        (CREATE, "backend/a", on("workflow:*", "pool/*"), False),
        (CREATE, "pool/ab", on("workflow:*", "pool/*"), True),
        (CREATE, "pool/*", on("workflow:*", "pool/a pool/b"), False),
        (CREATE, "pool/*", on("workflow:*", "pool/*"), True),
        (UPDATE, "config/workflow", on("config:*", "pool/*"), False),
        (TOKEN, "*", on("auth:Token", "pool/a"), False),
        (TOKEN, "*", on("auth:Token", "pool/*"), False),
        (TOKEN, "*", on("auth:Token", "*"), True),
        (TOKEN, "*", on("*:*", "*"), True),
        (TOKEN, "*", on("*", "*"), True),
        (CREATE, "pool/a", [*on("workflow:Read", "pool/a"), *on("workflow:Create", "pool/b")], False),
    ],
    ids=[
        "nothing grants nothing",
        "the action on the pool",
        "another action",
        "all of a kind",
        "all of another kind",
        "a longer name",
        "another case",
        "another kind of resource",
        "every pool",
        "every pool at once needs more than all there are",
        "every pool at once",
        "the service's own is no pool's",
        "the service through a pool",
        "the service through every pool",
        "the service",
        "everything",
        "everything, in short",
        "action and resource of two statements do not add up",
    ],
)
def test_a_granted_right_is_allowed_and_nothing_else(action, resource, policies, want):
    assert allowed(action, resource, policies) is want


@pytest.mark.parametrize(
    ("role", "resource", "want"),
    [
        ("osmo-a", "pool/a", True),
        ("osmo-a", "pool/ab", False),
        ("osmo-a", "pool/*", False),
        ("osmo-default", "pool/default", False),
        ("osmo-backend", "pool/backend", False),
        ("osmo-ctrl", "pool/ctrl", False),
        ("osmo-*", "pool/a", False),
        ("osmo-", "pool/a", False),
        ("a", "pool/a", False),
        ("osmo-user", "pool/anything", True),
        ("OSMO-a", "pool/a", False),
        ("osmo-admin", "pool/admin", True),
    ],
)
def test_a_role_of_the_convention_opens_the_pool_of_exactly_that_name(role, resource, want):
    assert allowed(CREATE, resource, statements_of(role, {})) is want


def test_a_role_that_was_written_takes_the_place_of_the_built_in_one_but_never_of_the_administrators():
    nothing = {"osmo-user": (), "osmo-a": (), "osmo-admin": ()}
    assert statements_of("osmo-user", nothing) == ()
    assert statements_of("osmo-a", nothing) == ()
    assert statements_of("osmo-admin", nothing) == BUILT_IN["osmo-admin"]


def test_a_gateways_pools_narrow_what_is_done_in_pools_and_nothing_else():
    grants = Grants(policies=BUILT_IN["osmo-admin"], pools=frozenset({"a"}))
    assert grants.allows(CREATE, "pool/a")
    assert not grants.allows(CREATE, "pool/b")
    assert not grants.allows(CREATE, "pool/*")
    assert grants.allows(UPDATE, "pool/b")
    assert grants.allows(TOKEN, "*")
    assert grants.names("pool", {CREATE}) == {"a"}
    assert grants.names("pool", {UPDATE}) is None
    assert Grants(policies=BUILT_IN["osmo-user"], pools=frozenset()).names("pool", POOL_USE) == set()


NAMES = ("a", "ab", "b")
ACTIONS = st.sampled_from(["*", "*:*", "workflow:*", "workflow:Create", "config:Read", "pool:List"])
RESOURCES = st.sampled_from(["*", *(f"{kind}/{name}" for kind in KINDS for name in ("*", *NAMES))])
STATEMENTS = st.builds(
    Statement, st.lists(ACTIONS, max_size=2).map(tuple), st.lists(RESOURCES, max_size=2).map(tuple)
)
GRANTS = st.builds(
    Grants,
    policies=st.lists(STATEMENTS, max_size=3).map(tuple),
    pools=st.none() | st.frozensets(st.sampled_from(NAMES)),
)


@given(GRANTS, st.sampled_from(Action), st.sampled_from(KINDS))
def test_lists_show_exactly_what_the_decision_allows(grants, action, kind):
    listed = grants.names(kind, {action})
    for name in NAMES:
        assert grants.allows(action, f"{kind}/{name}") == (listed is None or name in listed)
        if grants.allows(action, f"{kind}/{name}"):
            assert grants.anywhere(action)


def test_a_written_role_is_read_whole():
    document = [{"actions": ["workflow:*", "pool:List"], "resources": ["pool/a", "backend/*", "*"]}]
    assert read_statements(document) == (
        Statement(("workflow:*", "pool:List"), ("pool/a", "backend/*", "*")),
    )


def test_every_fault_of_a_written_role_is_told_at_once():
    wrong = [
        {"actions": ["workflow:Crate"], "resources": ["pool/a*", "pools/a", "pool/", "pool"]},
        {"actions": [], "resources": "pool/a"},
        {"actions": ["*:*"], "resources": ["*"], "effect": "Deny"},
        "osmo-admin",
    ]
    with pytest.raises(InvalidSpec) as refused:
        read_statements(wrong)
    assert [(fault.path, fault.code) for fault in refused.value.faults] == [
        ((0, "actions", 0), "unknown_action"),
        *[((0, "resources", i), "unknown_resource") for i in range(4)],
        ((1, "actions"), "not_a_list"),
        ((1, "resources"), "not_a_list"),
        ((2,), "not_a_policy"),
        ((3,), "not_a_policy"),
    ]
    assert all(fault.allowed for fault in refused.value.faults if fault.code.startswith("unknown"))


@pytest.mark.parametrize("document", [None, {}, "*", 3])
def test_a_value_that_is_no_list_is_no_role(document):
    with pytest.raises(InvalidSpec):
        read_statements(document)
