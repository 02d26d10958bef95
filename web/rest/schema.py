"""The parts that all operations of the API's schema share: authentication and errors.

drf-spectacular finds the authentication schemes once this is imported. Errors are described here and not in
each view, because they come from the layers around the views, which refuse every request in one shape.
"""

from typing import Any, ClassVar

from drf_spectacular.contrib.pydantic import PydanticExtension
from drf_spectacular.extensions import OpenApiAuthenticationExtension
from drf_spectacular.plumbing import ResolvedComponent
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaValue

from web.rest.parsers import StrictJSONParser


class PlainJsonSchema(GenerateJsonSchema):
    """JSON schemas as the rest of the document writes them: no titles, null as one of two types."""

    def field_title_should_be_set(self, schema: Any) -> bool:  # noqa: ARG002 -- its signature
        return False

    def float_schema(self, schema: Any) -> JsonSchemaValue:
        return {**super().float_schema(schema), "format": "double"}

    def nullable_schema(self, schema: Any) -> JsonSchemaValue:
        match described := super().nullable_schema(schema):
            case {"anyOf": [{"type": str(kind)} as other, {"type": "null"}]} if "enum" not in other:
                return {**other, "type": [kind, "null"]}
        return described

    def model_schema(self, schema: Any) -> JsonSchemaValue:
        """A model without its title, and open to the fields that a later release may add."""
        described = super().model_schema(schema)
        described.pop("title", None)
        described.pop("additionalProperties", None)
        return described


class RequestJsonSchema(PlainJsonSchema):
    """The same for a request's body, which may leave out what a reply always has."""

    def model_schema(self, schema: Any) -> JsonSchemaValue:
        described = super().model_schema(schema)
        needed = schema["cls"].needed_in_requests
        required = [name for name in described.pop("required", ()) if name in needed]
        return {**described, **({"required": required} if required else {})}


class ShapeExtension(PydanticExtension):  # type: ignore[no-untyped-call]  # theirs
    """How drf-spectacular describes ``shapes.Shape``: as pydantic's models, in plain JSON schemas."""

    target_class = "web.rest.shapes.Shape"
    match_subclasses = True
    priority = 1

    def map_serializer(self, auto_schema: Any, direction: str) -> Any:
        is_request = direction == "request"
        schema: dict[str, Any] = self.target.model_json_schema(
            ref_template=f"#/components/schemas/{{model}}{'Request' if is_request else ''}",
            mode="serialization",
            schema_generator=RequestJsonSchema if is_request else PlainJsonSchema,
        )
        for model, part in schema.pop("$defs", {}).items():
            name = f"{model}Request" if is_request else model
            component = ResolvedComponent(name, ResolvedComponent.SCHEMA, part, name)  # type: ignore[no-untyped-call]  # theirs
            auto_schema.registry.register_on_missing(component)
        return schema


class _Defined:
    """A way to log in, as the description has it."""

    definition: ClassVar[dict[str, Any]]

    def get_security_definition(self, auto_schema: Any) -> dict[str, Any]:
        del auto_schema
        return self.definition


_BEARER = {"type": "http", "scheme": "bearer"}
_JWT = {**_BEARER, "bearerFormat": "JWT"}
_USER = {"type": "apiKey", "in": "header", "name": "x-osmo-user"}


class PersonalTokenScheme(_Defined, OpenApiAuthenticationExtension):  # type: ignore[no-untyped-call]  # theirs
    target_class = "web.access.auth.PersonalTokenAuthentication"
    name = "personalToken"
    definition = {**_BEARER, "description": "A token of `manage.py make_token`."}


class ShortLoginScheme(_Defined, OpenApiAuthenticationExtension):  # type: ignore[no-untyped-call]  # theirs
    target_class = "web.access.auth.ShortLoginAuthentication"
    name = "shortLogin"
    definition = {**_JWT, "description": "From POST /api/auth/jwt/access_token."}


class ProviderScheme(_Defined, OpenApiAuthenticationExtension):  # type: ignore[no-untyped-call]  # theirs
    target_class = "web.identity.authentication.ProviderAuthentication"
    name = "identityProvider"
    definition = {
        **_JWT,
        "description": "A token of the identity provider whose addresses GET /api/auth/login returns.",
    }


class DevelopmentUserScheme(_Defined, OpenApiAuthenticationExtension):  # type: ignore[no-untyped-call]  # theirs
    target_class = "web.access.auth.DevelopmentUserAuthentication"
    name = "developmentUser"
    definition = {**_USER, "description": "In development settings only."}


class GatewayScheme(_Defined, OpenApiAuthenticationExtension):  # type: ignore[no-untyped-call]  # theirs
    target_class = "web.access.auth.GatewayAuthentication"
    name = "gateway"
    definition = {**_USER, "description": "From the trusted gateway only, which proves itself."}


ERROR = "Error"
_OPTIONAL_TEXT = {"type": ["string", "null"]}
_OPTIONAL_NUMBER = {"type": ["integer", "null"]}
COMPONENTS: dict[str, Any] = {
    ERROR: {
        "type": "object",
        "description": "The one shape of an error; `details` has every fault that was found.",
        "required": ["message", "error_code", "workflow_id", "details", "request_id"],
        "properties": {
            "message": {"type": "string"},
            "error_code": {"type": "string"},
            "workflow_id": _OPTIONAL_TEXT,
            "details": {"type": "array", "items": {"$ref": "#/components/schemas/Fault"}},
            "request_id": _OPTIONAL_TEXT,
        },
    },
    "Fault": {
        "type": "object",
        "required": ["path", "line", "column", "code", "message", "allowed"],
        "properties": {
            "path": {"type": "string"},
            "line": _OPTIONAL_NUMBER,
            "column": _OPTIONAL_NUMBER,
            "code": {"type": "string"},
            "message": {"type": "string"},
            "allowed": {"type": ["array", "null"], "items": {"type": "string"}},
        },
    },
}
ANYWHERE = {
    "400": "Something in it is not accepted; each fault is in `details`.",
    "401": "The caller is not known.",
    "403": "The caller may not do this.",
    "406": "No answer in an accepted media type.",
    "429": "Too many requests; `Retry-After` says when to come again.",
    "503": "Something this needs does not answer; try again.",
}
NAMING = {"404": "There is no such thing, or the caller may not see it."}
CHANGING = {
    "409": "It does not fit the present state.",
    "412": "It changed since the revision in `If-Match`.",
    "413": "The request is too large.",
    "415": "The media type of the request is not read.",
}


def describe_errors(result: dict[str, Any], **_: Any) -> dict[str, Any]:
    """Add the errors that each operation may answer; a postprocessing hook of drf-spectacular."""
    result["components"]["schemas"].update(COMPONENTS)
    content = {"application/json": {"schema": {"$ref": f"#/components/schemas/{ERROR}"}}}
    for path, operations in result["paths"].items():
        for method, operation in operations.items():
            errors = {
                **ANYWHERE,
                **(NAMING if method != "get" or _names_something(path, operation) else {}),
                **({} if method == "get" else CHANGING),
            }
            for code, description in errors.items():
                operation["responses"].setdefault(code, {"description": description, "content": content})
    return result


def describe_bodies(result: dict[str, Any], **_: Any) -> dict[str, Any]:
    """Say that bodies are JSON, which they are whatever their type; generators make nothing of ``*/*``."""
    for operations in result["paths"].values():
        for operation in operations.values():
            content = operation.get("requestBody", {}).get("content", {})
            if StrictJSONParser.media_type in content:
                content["application/json"] = content.pop(StrictJSONParser.media_type)
    return result


def _names_something(path: str, operation: dict[str, Any]) -> bool:
    return "{" in path or any(parameter.get("required") for parameter in operation.get("parameters", ()))
