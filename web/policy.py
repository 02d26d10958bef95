"""Access rules: roles as lists of statements, and the one decision that reads them. Pure.

A *statement* grants actions (``workflow:Create``) on resources (``pool/train``). A role is a list of
statements; a caller holds roles; whatever no statement grants is refused. There is no "deny": two roles
together never grant less than one. Names and meaning are those of OSMO's
``src/utils/roles/action_registry.go``, with one difference on purpose: OSMO's convention that role
``osmo-a`` grants ``pool/a*`` lets it into pool ``ab`` too. Here a name is the whole name, and ``*``
stands only for all actions, all of a kind, or everything; ``pool/a*`` is refused where a role is written.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from scheduling.errors import Fault, Forbidden, InvalidSpec, in_order


class Action(StrEnum):
    """All actions. Those that no endpoint needs keep OSMO's roles valid."""

    WORKFLOW_CREATE = "workflow:Create"
    WORKFLOW_LIST = "workflow:List"
    WORKFLOW_READ = "workflow:Read"
    WORKFLOW_UPDATE = "workflow:Update"
    WORKFLOW_DELETE = "workflow:Delete"
    WORKFLOW_CANCEL = "workflow:Cancel"
    WORKFLOW_EXEC = "workflow:Exec"
    WORKFLOW_PORT_FORWARD = "workflow:PortForward"
    WORKFLOW_RSYNC = "workflow:Rsync"
    POOL_LIST = "pool:List"
    RESOURCES_READ = "resources:Read"
    CONFIG_READ = "config:Read"
    CONFIG_UPDATE = "config:Update"
    CLUSTER_EXPLAIN = "cluster:Explain"
    PROFILE_READ = "profile:Read"
    PROFILE_UPDATE = "profile:Update"
    AUTH_TOKEN = "auth:Token"  # noqa: S105 -- an action's name
    DOCTOR_RUN = "doctor:Run"
    SYSTEM_HEALTH = "system:Health"
    SYSTEM_VERSION = "system:Version"
    SYSTEM_DOCS = "system:Docs"


POOL_USE = frozenset(a for a in Action if a.split(":")[0] in {"workflow", "pool", "resources"})
"""The actions in a pool; a gateway's list of allowed pools narrows these."""

POOL_VISIBILITY = POOL_USE | {Action.CONFIG_READ, Action.CONFIG_UPDATE}
"""Whoever may do any of these on a pool knows that it exists."""

KINDS = ("pool", "backend", "config")
EVERYTHING = "*"
NAME = re.compile(r"[a-zA-Z]([a-zA-Z0-9_.-]*[a-zA-Z0-9])?", re.ASCII)
"""A pool, a backend or a role, as OSMO names them."""


@dataclass(frozen=True, slots=True)
class Statement:
    """Each of these actions on each of these resources."""

    actions: tuple[str, ...]
    resources: tuple[str, ...]


ADMIN, USER, DEFAULT = "osmo-admin", "osmo-user", "osmo-default"
BUILT_IN: Mapping[str, tuple[Statement, ...]] = {
    ADMIN: (Statement(("*:*",), ("*",)),),
    USER: (
        Statement(("workflow:*", "pool:List", "resources:Read"), ("pool/*",)),
        Statement(("config:Read",), ("*",)),
    ),
    DEFAULT: (Statement(("system:*", "profile:*", "auth:Token"), ("*",)),),
    "osmo-backend": (),  # OSMO's own agents, which are none here; never the pools "backend" and "ctrl"
    "osmo-ctrl": (),
}


def allowed(action: Action, resource: str, policies: Iterable[Statement]) -> bool:
    """Whether some statement grants the action on the resource.

    ``resource`` is ``pool/train``; ``pool/*``, which asks for every pool at once; or ``*``, the service.
    """
    return any(
        any(_same_action(pattern, action) for pattern in statement.actions)
        and any(_same_resource(pattern, resource) for pattern in statement.resources)
        for statement in policies
    )


def _same_action(pattern: str, action: Action) -> bool:
    return pattern in {"*", "*:*", action.value, f"{action.split(':')[0]}:*"}


def _same_resource(pattern: str, resource: str) -> bool:
    if pattern in {EVERYTHING, resource}:
        return True
    return pattern.endswith("/*") and resource.startswith(pattern[:-1])


def statements_of(role: str, rows: Mapping[str, tuple[Statement, ...]]) -> tuple[Statement, ...]:
    """The grants of a role: as an administrator wrote it, else as built in, else by convention, else nothing.

    ``osmo-admin`` cannot be rewritten, so nobody locks every administrator out.
    """
    if role == ADMIN:
        return BUILT_IN[ADMIN]
    if role in rows:
        return rows[role]
    if role in BUILT_IN:
        return BUILT_IN[role]
    pool = role.removeprefix("osmo-")
    if pool != role and NAME.fullmatch(pool):
        return (Statement(("workflow:*", "pool:List", "resources:Read"), (f"pool/{pool}",)),)
    return ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Grants:
    """The rights of one caller. ``pools`` is a gateway's list of allowed pools, None where there is none."""

    roles: tuple[str, ...] = ()
    policies: tuple[Statement, ...] = ()
    pools: frozenset[str] | None = None

    def allows(self, action: Action, resource: str) -> bool:
        if self.pools is not None and action in POOL_USE:
            kind, _, name = resource.partition("/")
            if kind != "pool" or name not in self.pools:
                return False
        return allowed(action, resource, self.policies)

    def anywhere(self, action: Action) -> bool:
        """Whether there is any resource on which the action may be done."""
        return any(_same_action(pattern, action) for s in self.policies for pattern in s.actions)

    def sees_pool(self, name: str) -> bool:
        return any(self.allows(action, f"pool/{name}") for action in POOL_VISIBILITY)

    def names(self, kind: str, actions: Iterable[Action]) -> frozenset[str] | None:
        """The objects of a kind on which any of the actions may be done; None for all."""
        visible: set[str] = set()
        for action in actions:
            names = self._names(kind, action)
            if names is None:
                return None
            visible |= names
        return frozenset(visible)

    def _names(self, kind: str, action: Action) -> frozenset[str] | None:
        narrowed = None
        if self.pools is not None and action in POOL_USE:
            narrowed = self.pools if kind == "pool" else frozenset()
        if allowed(action, f"{kind}/*", self.policies):
            return narrowed
        patterns = {
            pattern
            for statement in self.policies
            if any(_same_action(action_pattern, action) for action_pattern in statement.actions)
            for pattern in statement.resources
        }
        named = frozenset(p.partition("/")[2] for p in patterns if p.startswith(f"{kind}/"))
        return named if narrowed is None else named & narrowed


def refusal(action: Action, resource: str) -> Forbidden:
    """The error for a caller who sees the resource and lacks the action."""
    where = "" if resource == EVERYTHING else f" on {resource[:80]!a}"
    return Forbidden(f"You hold no role that grants {action}{where}.")


MOST_WORDS = 1_000
"""Actions and resources of a role that is written; each request of its holders reads them all."""


def fault_of_size(statements: Iterable[Statement]) -> str:
    """Say why a role cannot be written with so many words; empty if it can."""
    words = sum(len(statement.actions) + len(statement.resources) for statement in statements)
    if words <= MOST_WORDS:
        return ""
    return f"A role has at most {MOST_WORDS:,} actions and resources in all; this has {words:,}."


def read_statements(document: Any) -> tuple[Statement, ...]:
    """A role's policies as JSON, ``[{"actions": [...], "resources": [...]}]``, checked whole.

    Raises InvalidSpec with every fault.
    """
    if not isinstance(document, list):
        raise InvalidSpec(
            "The policies of a role are a list.", [Fault((), "not_a_list", "A list is needed.")]
        )
    faults: list[Fault] = []
    statements = []
    for index, entry in enumerate(document):
        if not isinstance(entry, dict) or set(entry) != {"actions", "resources"}:
            needed = 'Each policy is an object with "actions" and "resources" and nothing else.'
            faults.append(Fault((index,), "not_a_policy", needed, allowed=("actions", "resources")))
            continue
        actions = _checked_texts(
            entry["actions"], path=(index, "actions"), check=_action_fault, faults=faults
        )
        resources = _checked_texts(
            entry["resources"], path=(index, "resources"), check=_resource_fault, faults=faults
        )
        statements.append(Statement(actions, resources))
    if faults:
        raise InvalidSpec(" ".join(fault.message for fault in faults[:3]), in_order(faults))
    return tuple(statements)


def _checked_texts(
    value: Any, *, path: tuple[str | int, ...], check: Any, faults: list[Fault]
) -> tuple[str, ...]:
    if not isinstance(value, list) or not value or not all(isinstance(word, str) for word in value):
        faults.append(Fault(path, "not_a_list", "A list of at least one word is needed."))
        return ()
    faults += [fault for i, word in enumerate(value) if (fault := check(word, (*path, i)))]
    return tuple(value)


_ACTIONS = ("*:*", *sorted({f"{a.split(':')[0]}:*" for a in Action}), *sorted(a.value for a in Action))


def _action_fault(word: str, path: tuple[str | int, ...]) -> Fault | None:
    if word in _ACTIONS or word == "*":
        return None
    return Fault(path, "unknown_action", f"There is no action {word[:60]!a}.", allowed=_ACTIONS)


def _resource_fault(word: str, path: tuple[str | int, ...]) -> Fault | None:
    kind, _, name = word.partition("/")
    if word == EVERYTHING or (kind in KINDS and (name == "*" or NAME.fullmatch(name))):
        return None
    forms = ("*", *(f"{kind}/*" for kind in KINDS), *(f"{kind}/<name>" for kind in KINDS))
    message = f"{word[:60]!a} names no resource; a star stands for a whole name, never for its end."
    return Fault(path, "unknown_resource", message, allowed=forms)
