"""The operator's audit over REST: ask for one, and read what it found. Reads only, repairs nothing."""

from typing import Annotated, Any

from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from doctor import services
from doctor.models import ConsistencyCheck
from scheduling.errors import NotFound
from web.permissions import Needs
from web.policy import Action
from web.queries import NoQuery
from web.shapes import AsStored, Instant, Shape, about
from web.throttles import AuditThrottle
from workflows.api.views import username

AUDIT = Needs(Action.AUDIT_RUN)
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
    limits: dict[str, float]
    repaired: dict[str, Any] | None
    submissions: dict[str, Any] | None


class AuditShape(Shape):
    id: int
    asked_by: str
    asked_at: Instant
    began_at: Instant | None
    ended_at: Instant | None = about("Null until the check has ended.")
    failure: str | None = about("Why it ended without a report.")
    report: Annotated[ReportShape | None, AsStored()]


class AuditsView(APIView):
    access = {"POST": AUDIT}
    throttle_classes = [AuditThrottle]

    @extend_schema(operation_id="ask_for_audit", request=None, responses={200: AuditShape})
    def post(self, request: Request) -> Response:
        """Ask a worker to compare rows and clusters; while one goes on, that one is answered."""
        NoQuery.of(request)
        return Response(_shape(services.ask(by=username(request))))


class AuditView(APIView):
    access = {"GET": AUDIT}

    @extend_schema(operation_id="get_audit", responses=AuditShape)
    def get(self, request: Request, audit_id: str) -> Response:
        """Show an audit that was asked for, with its report once it has ended."""
        NoQuery.of(request)
        is_number = audit_id.isascii() and audit_id.isdecimal() and len(audit_id) <= DIGITS
        row = ConsistencyCheck.objects.filter(pk=int(audit_id)).first() if is_number else None
        if row is None:
            raise NotFound(
                f"There is no audit {audit_id[:80]!a}; the last {services.KEPT} that were asked for are kept."
            )
        return Response(_shape(row))


def _shape(row: ConsistencyCheck) -> AuditShape:
    return AuditShape(
        id=row.pk,
        asked_by=row.asked_by,
        asked_at=row.asked_at,
        began_at=row.began_at,
        ended_at=row.ended_at,
        failure=row.failure or None,
        report=row.report,
    )
