"""The history of configuration over REST, in OSMO's paths and shapes.

A row shows who changed which object, when and why, and as ``data`` the whole set of that type after the
change, narrowed to what the caller may read. Types that OSMO has and this service does not keep may be
asked for, and have no rows: its client lists all of them.
"""

from collections.abc import Mapping
from typing import Annotated, Any

from drf_spectacular.utils import extend_schema
from pydantic import Field
from rest_framework import serializers
from rest_framework.exceptions import ErrorDetail
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from pools import history, services
from pools.api.requests import change_of, envelope
from pools.api.shapes import WriteShape
from pools.api.views import DRY_RUN, FORCE, IF_MATCH, READ
from pools.history import HistoryFilter, as_set
from pools.models import ConfigRevision
from pools.services.recording import MAX_TAGS
from scheduling.errors import Fault, InvalidSpec, in_order
from web.access.permissions import Needs, caller, check
from web.access.rights import grants_of
from web.policy import Action
from web.rest.queries import Query, WordChoice
from web.rest.shapes import Shape, about, absent
from web.times import naive_utc

UPDATE = Needs(Action.CONFIG_UPDATE, on=None)
MAX_REVISION = 2**31 - 1


class Tag(serializers.CharField):
    def __init__(self, **kwargs: Any) -> None:
        super().__init__(max_length=63, **kwargs)


class HistoryQuery(Query):
    offset = serializers.IntegerField(min_value=0, max_value=10_000_000, default=0)
    limit = serializers.IntegerField(min_value=1, max_value=history.MAX_PAGE, default=20)
    order = WordChoice(
        choices=("ASC", "DESC"),
        default="ASC",
        help_text="Order of the page by time; a page always holds the newest changes.",
    )
    config_types = serializers.ListField(
        child=WordChoice(choices=history.known_types()),
        max_length=50,
        default=list,
        help_text="Only these types. May be repeated.",
    )
    name = serializers.CharField(max_length=63, default="", help_text="Of the object that was changed.")
    revision = serializers.IntegerField(min_value=1, max_value=MAX_REVISION, default=None)
    tags = serializers.ListField(
        child=Tag(), max_length=MAX_TAGS, default=list, help_text="Only those with all of these tags."
    )
    created_before = serializers.DateTimeField(default=None, help_text="UTC.")
    created_after = serializers.DateTimeField(default=None, help_text="UTC.")
    at_timestamp = serializers.DateTimeField(
        default=None, help_text="The state at this moment, one row for each type. UTC."
    )
    omit_data = serializers.BooleanField(default=False)


class DiffQuery(Query):
    config_type = WordChoice(choices=history.known_types())
    first_revision = serializers.IntegerField(min_value=1, max_value=MAX_REVISION)
    second_revision = serializers.IntegerField(min_value=1, max_value=MAX_REVISION)


class RevisionShape(Shape):
    config_type: str
    revision: int = about("Counts per type.")
    name: str = about("Of the object that was changed.")
    username: str
    created_at: str = about("Naive UTC.")
    description: str
    tags: list[str]
    data: Any = about("The whole set of the type after the change; null with omit_data.")


class HistoryShape(Shape):
    configs: list[RevisionShape]


class DiffShape(Shape):
    first_data: Any = about("The set after the first revision.")
    second_data: Any = about("The set after the second.")
    changed: list[str] = about("Objects that differ.")
    diff: str = about("Unified, of the YAML of each object that differs.")


class RollbackShape(WriteShape):
    config_type: str
    revision: Annotated[int, Field(ge=1, le=MAX_REVISION)]
    force: bool | None = absent("Delete, where that revision was a deletion, although work still runs.")


class RolledBackShape(Shape):
    config_type: str
    name: str
    revision: int = about("The object's newest; an old one if nothing had changed.")


class TagsWriteSerializer(serializers.Serializer[Any]):
    set_tags = serializers.ListField(child=Tag(), max_length=MAX_TAGS, default=list, allow_null=True)
    delete_tags = serializers.ListField(child=Tag(), max_length=MAX_TAGS, default=list, allow_null=True)


class RevisionTagsShape(Shape):
    config_type: str
    revision: int
    tags: list[str]


class HistoryView(APIView):
    access = {"GET": READ}

    @extend_schema(operation_id="list_config_history", parameters=[HistoryQuery], responses=HistoryShape)
    def get(self, request: Request) -> Response:
        """List configuration changes, each with the whole set of its type after the change."""
        query = HistoryQuery.of(request)
        _one_time(query)
        criteria = HistoryFilter(
            types=query["config_types"],
            name=query["name"],
            revision=query["revision"],
            tags=query["tags"],
            created_after=query["created_after"],
            created_before=query["created_before"],
            at=query["at_timestamp"],
            newest_first=query["order"] == "DESC",
            offset=query["offset"],
            limit=query["limit"],
        )
        rows = history.page(caller(request), criteria)
        sets = {} if query["omit_data"] else history.sets_after(caller(request), rows)
        return Response(HistoryShape(configs=[_row(row, sets) for row in rows]))


def _one_time(query: Mapping[str, Any]) -> None:
    both = [name for name in ("created_after", "created_before") if query[name] and query["at_timestamp"]]
    if both:
        errors = [
            ErrorDetail("Not together with at_timestamp, which picks one moment.", code="contradiction")
        ]
        raise serializers.ValidationError(dict.fromkeys(both, errors))


def _row(row: ConfigRevision, sets: Mapping[tuple[str, int], history.Contents]) -> RevisionShape:
    contents = sets.get((row.config_type, row.revision))
    return RevisionShape(
        config_type=row.config_type,
        revision=row.revision,
        name=row.name,
        username=row.username,
        created_at=naive_utc(row.created_at, precision="microseconds"),
        description=row.description,
        tags=row.tags,
        data=None if contents is None else as_set(row.config_type, contents),
    )


class DiffView(APIView):
    access = {"GET": READ}

    @extend_schema(operation_id="diff_config_history", parameters=[DiffQuery], responses=DiffShape)
    def get(self, request: Request) -> Response:
        """Compare the sets of one type after two revisions."""
        query, user = DiffQuery.of(request), caller(request)
        kind, first, second = query["config_type"], query["first_revision"], query["second_revision"]
        rows = [history.revision_visible_to(user, kind, number) for number in (first, second)]
        sets = history.sets_after(user, rows)
        before, after = sets[kind, first], sets[kind, second]
        changed = history.changed_names(before, after)
        parts = [
            history.unified_diff(
                before.get(name), after.get(name), name=name, was=f"{kind}:{first}", now=f"{kind}:{second}"
            )
            for name in changed
        ]
        return Response(
            DiffShape(
                first_data=as_set(kind, before),
                second_data=as_set(kind, after),
                changed=changed,
                diff="\n".join(parts),
            )
        )


class RollbackView(APIView):
    access = {"POST": UPDATE}

    @extend_schema(
        operation_id="rollback_config",
        parameters=[DRY_RUN, FORCE, IF_MATCH],
        request=RollbackShape,
        responses=RolledBackShape,
    )
    def post(self, request: Request) -> Response:
        """Restore the object that a revision changed to its state after it; it is checked again."""
        sent = envelope(request, holds=None, also=("config_type", "revision"))
        kind, number = _target(request.data)
        _may_write(request, kind, number)
        saved = services.roll_back(
            config_type=kind,
            revision=number,
            change=sent.change,
            force=sent.force,
        )
        return Response(RolledBackShape(config_type=kind, name=saved.name, revision=saved.revision))


def _target(body: Any) -> tuple[str, int]:
    """The type and number of a revision in a body. Raises InvalidSpec with every fault."""
    kind, number = body.get("config_type"), body.get("revision")  # a mapping: the envelope checked it
    faults = []
    types = history.known_types()
    if not isinstance(kind, str) or kind.upper() not in types:
        faults.append(Fault(("config_type",), "unknown_type", "A type of configuration.", allowed=types))
    if not isinstance(number, int) or isinstance(number, bool) or not 0 < number <= MAX_REVISION:
        faults.append(Fault(("revision",), "invalid_number", "The number of a revision, from 1."))
    if faults:
        raise InvalidSpec("A revision is named by config_type and revision.", in_order(faults))
    return str(kind).upper(), int(str(number))


def _may_write(request: Request, config_type: str, revision: int) -> ConfigRevision:
    """The revision, if the caller may see it and write changes. Raises NotFound or Forbidden."""
    row = history.revision_visible_to(caller(request), config_type, revision)
    resource = history.resource_of(row.config_type, row.name)
    check(grants_of(request.user), Needs(Action.CONFIG_UPDATE, on=resource), {})
    return row


def _addressed(config_type: str, revision: str) -> tuple[str, int]:
    number = int(revision) if revision.isascii() and revision.isdigit() and len(revision) < 12 else revision
    return _target({"config_type": config_type, "revision": number})


class RevisionView(APIView):
    access = {"DELETE": UPDATE}

    @extend_schema(
        operation_id="delete_config_revision",
        parameters=[DRY_RUN],
        request=None,
        responses={200: RolledBackShape},
    )
    def delete(self, request: Request, config_type: str, revision: str) -> Response:
        """Delete a revision from the history; the current revision of an object cannot be deleted."""
        sent = envelope(request, holds=None, revised=False)
        kind, number = _addressed(config_type, revision)
        row = _may_write(request, kind, number)
        services.take_out(config_type=kind, revision=number, change=sent.change)
        return Response(RolledBackShape(config_type=kind, name=row.name, revision=number))


class RevisionTagsView(APIView):
    access = {"POST": UPDATE}

    @extend_schema(
        operation_id="tag_config_revision",
        parameters=[DRY_RUN],
        request=TagsWriteSerializer,
        responses=RevisionTagsShape,
    )
    def post(self, request: Request, config_type: str, revision: str) -> Response:
        """Add and remove tags of a revision."""
        kind, number = _addressed(config_type, revision)
        add, remove = _tags(request)
        _may_write(request, kind, number)
        row = services.retag(
            config_type=kind, revision=number, change=change_of(request), add=add, remove=remove
        )
        return Response(RevisionTagsShape(config_type=kind, revision=number, tags=row.tags))


def _tags(request: Request) -> tuple[list[str], list[str]]:
    body = request.data
    if isinstance(body, Mapping) and not (body.get("set_tags") or body.get("delete_tags")):
        fault = Fault(("set_tags",), "required", "Give set_tags, delete_tags or both, at least one tag.")
        raise InvalidSpec(fault.message, [fault])
    read = TagsWriteSerializer(data=body)
    read.is_valid(raise_exception=True)
    return read.validated_data["set_tags"] or [], read.validated_data["delete_tags"] or []
