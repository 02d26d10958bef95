"""How the schema describes our ways to log in; drf-spectacular finds these classes once imported."""

from typing import Any

from drf_spectacular.extensions import OpenApiAuthenticationExtension


class PersonalTokenScheme(OpenApiAuthenticationExtension):  # type: ignore[no-untyped-call]  # theirs
    target_class = "osmo_topology.web.auth.PersonalTokenAuthentication"
    name = "personalToken"

    def get_security_definition(self, auto_schema: Any) -> dict[str, Any]:  # noqa: ARG002 -- its signature
        return {"type": "http", "scheme": "bearer", "description": "A token of `manage.py make_token`."}


class DevelopmentUserScheme(OpenApiAuthenticationExtension):  # type: ignore[no-untyped-call]  # theirs
    target_class = "osmo_topology.web.auth.DevelopmentUserAuthentication"
    name = "developmentUser"

    def get_security_definition(self, auto_schema: Any) -> dict[str, Any]:  # noqa: ARG002 -- its signature
        return {
            "type": "apiKey",
            "in": "header",
            "name": "x-osmo-user",
            "description": "In development settings only.",
        }
