"""Forms of the pages: read strictly, and taken only from a page of ours."""

from django.http import HttpRequest, HttpResponse
from rest_framework import serializers
from rest_framework.authentication import CSRFCheck
from rest_framework.exceptions import PermissionDenied
from rest_framework.request import Request

from web.queries import StrictForm


class Form(StrictForm):
    """Base of all: what is declared may be sent, and the token that says whose page it was on."""

    csrfmiddlewaretoken = serializers.CharField(default="", allow_blank=True)


def check_form(request: Request) -> None:
    """Refuse a form that was not on a page of ours, however its sender is known to us.

    REST asks this of sessions alone; here a gateway's cookie would be proof enough for a foreign page too.
    """
    django = request._request  # noqa: SLF001 -- the check reads Django's request
    check = CSRFCheck(_no_response)
    check.process_request(django)
    if refused := check.process_view(django, _no_response, (), {}):
        raise PermissionDenied(f"The form is not, or no longer, good: {refused}")


def _no_response(request: HttpRequest) -> HttpResponse:
    """What stands behind the check where a view would, and is never asked."""
    raise NotImplementedError(request.path)
