"""What an installation says of its identity provider, as one value."""

from collections.abc import Iterable
from dataclasses import dataclass, field

from web.env import Environment


@dataclass(frozen=True, slots=True, kw_only=True)
class ProviderSettings:
    """An issuer, the clients that it knows, and how its claims are read."""

    issuer: str
    ca_file: str = ""
    algorithms: tuple[str, ...] = ("RS256", "ES256")

    device_client: str = ""
    """Its id, as the other clients are; empty: that login is not offered."""

    browser_client: str = ""
    pages_client: str = ""
    pages_secret: str = field(default="", repr=False)
    audiences: tuple[str, ...] = ()
    scopes: tuple[str, ...] = ("openid", "profile")
    user_claim: str = "preferred_username"
    groups_claim: str = "groups"

    group_roles: tuple[tuple[str, tuple[str, ...]], ...] = ()
    """Pairs of a group and the roles of its members."""

    session_seconds: int = 28_800

    @property
    def offers_pages_login(self) -> bool:
        """Whether the pages and the admin offer a login at the provider."""
        return bool(self.pages_client)

    @property
    def bearer_audiences(self) -> tuple[str, ...]:
        """The clients whose tokens are accepted as bearers."""
        clients = (self.device_client, self.browser_client, *self.audiences)
        return tuple(dict.fromkeys(client for client in clients if client))

    def known_groups(self, groups: Iterable[str]) -> tuple[str, ...]:
        """Those of a user's groups that the table names."""
        named = {group for group, _ in self.group_roles}
        return tuple(sorted(named.intersection(groups)))

    def roles_of(self, groups: Iterable[str]) -> tuple[str, ...]:
        """The roles that the table gives to the members of these groups."""
        members = set(groups)
        return tuple(
            sorted({role for group, roles in self.group_roles if group in members for role in roles})
        )


def provider_settings(env: Environment) -> ProviderSettings | None:
    """The identity provider of this installation, if it has one."""
    if not env.oidc_issuer:
        return None
    return ProviderSettings(
        issuer=env.oidc_issuer,
        ca_file=env.oidc_ca_file,
        algorithms=tuple(env.oidc_algorithms),
        device_client=env.oidc_device_client_id,
        browser_client=env.oidc_browser_client_id,
        pages_client=env.oidc_pages_client_id,
        pages_secret=env.oidc_pages_client_secret.get_secret_value(),
        audiences=tuple(env.oidc_audiences),
        scopes=tuple(env.oidc_scopes),
        user_claim=env.oidc_user_claim,
        groups_claim=env.oidc_groups_claim,
        group_roles=tuple((group, tuple(roles)) for group, roles in sorted(env.oidc_group_roles.items())),
        session_seconds=env.oidc_session_seconds,
    )
