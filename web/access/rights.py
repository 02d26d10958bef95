"""The rights of a user, from the rows: their roles and the statements of those.

Roles come from four places. Staff and superusers are ``osmo-admin``. Users hold the roles assigned to them
or, without any, those of ``OSMO_DEFAULT_ROLES``. A user from the gateway holds the roles that the gateway
names and those assigned, never the default ones: no names mean no roles. A user from the identity provider
holds the roles of their groups and those assigned or, without any, the default ones. Every user holds
``osmo-default``.
"""

import json
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain

import structlog
from django.conf import settings
from django.contrib.auth.models import AbstractBaseUser, AnonymousUser, User
from django.db import connection

from scheduling.errors import InvalidSpec
from web import policy
from web.models import ROLE_NAME_LENGTH, Role, RoleAssignment

log = structlog.get_logger(__name__)


_ROLES = """
    WITH assigned AS (SELECT user_id, role FROM web_roleassignment WHERE user_id = ANY(%(users)s))
    SELECT user_id, role, NULL FROM assigned
     UNION ALL
    SELECT NULL, name, policies::text FROM web_role
     WHERE name = ANY(%(names)s) OR name IN (SELECT role FROM assigned)
"""
"""The roles that are assigned to users; and what administrators wrote of these and of the named ones."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ExternalRights:
    """The word of a gateway or the identity provider on its caller, for one request.

    ``pools`` narrows the roles to these pools, None for no narrowing. ``or_default``: without any role the
    default ones hold.
    """

    roles: tuple[str, ...]
    pools: frozenset[str] | None
    or_default: bool


def gateway_rights(roles: tuple[str, ...], pools: frozenset[str] | None) -> ExternalRights:
    """The rights that a trusted gateway's headers name; ``pools`` is None without that header."""
    return ExternalRights(roles=roles, pools=pools, or_default=False)


def provider_rights(roles: tuple[str, ...]) -> ExternalRights:
    """The rights of the groups that the identity provider names."""
    return ExternalRights(roles=roles, pools=None, or_default=True)


def has_external_rights(user: User) -> bool:
    """Whether somebody outside decides with each request what this user may do."""
    return getattr(user, "external", None) is not None


def grants_of(user: AbstractBaseUser | AnonymousUser) -> policy.Grants:
    """The grants of a user: those read for this request, else read now."""
    grants = getattr(user, "request_grants", None)
    return grants if isinstance(grants, policy.Grants) else read_grants(user)


def read_grants(user: AbstractBaseUser | AnonymousUser) -> policy.Grants:
    """Read a user's roles and what they grant. One query, in SQL because every request waits for it."""
    return read_many_grants([user])[0]


def read_many_grants(users: Sequence[AbstractBaseUser | AnonymousUser | None]) -> list[policy.Grants]:
    """The same for many users, in their order; None and inactive ones have no grants. One query."""
    active = [user for user in users if isinstance(user, User) and user.is_active]
    if not active:
        return [policy.Grants() for _ in users]
    names = {policy.DEFAULT, *settings.DEFAULT_ROLES, *chain.from_iterable(map(_named_roles, active))}
    with connection.cursor() as cursor:
        cursor.execute(_ROLES, {"users": [user.pk for user in active], "names": list(names)})
        rows: list[tuple[int | None, str, str | None]] = cursor.fetchall()
    assigned: defaultdict[int, list[str]] = defaultdict(list)
    written: dict[str, str] = {}
    for user_id, name, policies in rows:
        if user_id is not None:
            assigned[user_id].append(name)
        elif policies is not None:
            written[name] = policies
    return [
        _grants(user, _named_roles(user) + assigned[user.pk], written)
        if isinstance(user, User) and user.is_active
        else policy.Grants()
        for user in users
    ]


def _named_roles(user: User) -> list[str]:
    """The roles of a user that stand in no row."""
    external: ExternalRights | None = getattr(user, "external", None)
    own = list(external.roles) if external else []
    return [*own, policy.ADMIN] if user.is_staff or user.is_superuser else own


def _grants(user: User, own: list[str], written: Mapping[str, str]) -> policy.Grants:
    external: ExternalRights | None = getattr(user, "external", None)
    if not own and (external is None or external.or_default):
        own = settings.DEFAULT_ROLES
    roles = tuple(sorted({policy.DEFAULT, *own}))
    rows = {name: _statements(name, written[name]) for name in roles if name in written}
    policies = tuple(statement for role in roles for statement in policy.statements_of(role, rows))
    return policy.Grants(roles=roles, policies=policies, pools=external.pools if external else None)


def _statements(name: str, policies: str) -> tuple[policy.Statement, ...]:
    """The statements of a row; none if it was written past the checks."""
    try:
        return policy.read_statements(json.loads(policies))
    except InvalidSpec as error:
        log.warning("role_unreadable", role=name, fault=error.message)
        return ()


def assigned_roles(user: User) -> list[str]:
    """The roles that an administrator assigned to a user."""
    return list(RoleAssignment.objects.filter(user=user).order_by("role").values_list("role", flat=True))


def unknown_role(name: str) -> str | None:
    """The fault of a role's name that grants nothing, with the existing roles; None for a good name."""
    implied = name in policy.BUILT_IN or policy.statements_of(name, {})
    if (implied and len(name) <= ROLE_NAME_LENGTH) or Role.objects.filter(name=name).exists():
        return None
    names = sorted({*policy.BUILT_IN, *Role.objects.values_list("name", flat=True)[:50]})
    return f"There is no role {name[:60]!a}; there are {', '.join(names)} and osmo-<pool>."
