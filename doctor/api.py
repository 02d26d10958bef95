"""The operator's audit over REST: ask for one, and read what it found. Reads only, repairs nothing."""

from typing import Any

from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from doctor import services
from doctor.models import ConsistencyCheck
from scheduling.errors import NotFound
from web.permissions import Needs
from web.policy import Action
from web.queries import NoQuery
from web.throttles import AuditThrottle
from web.times import naive_utc
from workflows.api.views import username

AUDIT = Needs(Action.AUDIT_RUN)
DIGITS = 18  # of the longest number that a column certainly holds


class FindingShape(serializers.Serializer[Any]):
    kind = serializers.CharField()
    rule = serializers.CharField()
    message = serializers.CharField()
    since = serializers.CharField(allow_null=True)
    backend = serializers.CharField()
    workflow = serializers.CharField()
    group = serializers.CharField()
    object = serializers.CharField()
    repair = serializers.CharField(help_text="What manage.py audit --repair would do.")


class ReportShape(serializers.Serializer[Any]):
    """What ``manage.py audit --json`` prints."""

    at = serializers.CharField()
    exit_code = serializers.IntegerField(help_text="0 clean, 1 findings, 2 not everything looked at.")
    counts = serializers.DictField(child=serializers.IntegerField())
    findings = FindingShape(many=True, help_text="At most 1000.")
    findings_left_out = serializers.IntegerField()
    looked = serializers.ListField(child=serializers.DictField())
    not_looked = serializers.ListField(child=serializers.DictField(child=serializers.CharField()))
    groups = serializers.IntegerField()
    unreleased = serializers.IntegerField()
    workflows = serializers.IntegerField()
    limits = serializers.DictField(child=serializers.FloatField())
    repaired = serializers.DictField(allow_null=True)
    submissions = serializers.DictField(allow_null=True)


class AuditShape(serializers.Serializer[Any]):
    id = serializers.IntegerField()
    asked_by = serializers.CharField()
    asked_at = serializers.CharField()
    began_at = serializers.CharField(allow_null=True)
    ended_at = serializers.CharField(allow_null=True, help_text="Null while it goes on.")
    failure = serializers.CharField(allow_null=True, help_text="Why it ended without a report.")
    report = ReportShape(allow_null=True)


class AuditsView(APIView):
    access = {"POST": AUDIT}
    throttle_classes = [AuditThrottle]

    @extend_schema(operation_id="ask_for_audit", request=None, responses={200: AuditShape})
    def post(self, request: Request) -> Response:
        """Ask a worker to compare rows and clusters; while one goes on, that one is answered."""
        NoQuery.of(request)
        return Response(_shown(services.ask(by=username(request))))


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
        return Response(_shown(row))


def _shown(row: ConsistencyCheck) -> dict[str, Any]:
    return {
        "id": row.pk,
        "asked_by": row.asked_by,
        "asked_at": naive_utc(row.asked_at),
        "began_at": naive_utc(row.began_at),
        "ended_at": naive_utc(row.ended_at),
        "failure": row.failure or None,
        "report": row.report,
    }
