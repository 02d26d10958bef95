"""The consistency check over REST: request one, and read its report. It reads only and repairs nothing."""

from typing import Annotated, Any

from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from doctor import services
from doctor.models import ConsistencyCheck
from scheduling.errors import NotFound
from web.access.permissions import Needs
from web.limits.throttles import DoctorThrottle
from web.policy import Action
from web.rest.own import OwnView
from web.rest.queries import NoQuery
from web.rest.shapes import AsStored, OwnInstant, Shape, about
from workflows.api.views import username

DOCTOR = Needs(Action.DOCTOR_RUN)
DIGITS = 18  # of the longest number that a column certainly holds


class FindingShape(Shape):
    kind: str
    rule: str
    message: str
    since: str | None
    backend: str
    workflow: str
    group: str
    object: str
    repair: str = about("What manage.py doctor --repair would do.")


class ReportShape(Shape):
    """What ``manage.py doctor --json`` prints."""

    at: str
    exit_code: int = about("0 clean, 1 findings, 2 some cluster was not checked.")
    counts: dict[str, int]
    findings: list[FindingShape] = about("At most 1000.")
    findings_left_out: int
    looked: list[dict[str, Any]]
    not_looked: list[dict[str, str]]
    groups: int
    unreleased: int
    workflows: int
    waiting: int = about("Groups that are due and wait for their turn with the workers: late, and not lost.")
    limits: dict[str, float]
    repaired: dict[str, Any] | None


class ConsistencyCheckShape(Shape):
    id: int
    requested_by: str
    requested_at: OwnInstant
    began_at: OwnInstant | None
    ended_at: OwnInstant | None = about("Null until the check has ended.")
    failure: str | None = about("Why it ended without a report.")
    report: Annotated[ReportShape | None, AsStored()]


class ConsistencyChecksView(OwnView):
    access = {"POST": DOCTOR}
    throttle_classes = [DoctorThrottle]

    @extend_schema(
        operation_id="request_consistency_check", request=None, responses={200: ConsistencyCheckShape}
    )
    def post(self, request: Request) -> Response:
        """Have a worker compare rows and clusters; returns the unfinished check if there is one."""
        NoQuery.without_body(request)
        return Response(_shape(services.request_check(by=username(request))))


class ConsistencyCheckView(OwnView):
    access = {"GET": DOCTOR}

    @extend_schema(operation_id="get_consistency_check", responses=ConsistencyCheckShape)
    def get(self, request: Request, check_id: str) -> Response:
        """Show a requested check, with its report once it has ended."""
        NoQuery.of(request)
        is_number = check_id.isascii() and check_id.isdecimal() and len(check_id) <= DIGITS
        row = ConsistencyCheck.objects.filter(pk=int(check_id)).first() if is_number else None
        if row is None:
            raise NotFound(
                f"There is no consistency check {check_id[:80]!a}; the service stores the last "
                f"{services.MOST_STORED}."
            )
        return Response(_shape(row))


def _shape(row: ConsistencyCheck) -> ConsistencyCheckShape:
    return ConsistencyCheckShape(
        id=row.pk,
        requested_by=row.requested_by,
        requested_at=row.requested_at,
        began_at=row.began_at,
        ended_at=row.ended_at,
        failure=row.failure or None,
        report=row.report,
    )
