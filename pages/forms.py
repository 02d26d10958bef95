"""Forms of the pages: read strictly, and accepted only from a page of this service."""

from django.http import HttpRequest, HttpResponse
from rest_framework import serializers
from rest_framework.authentication import CSRFCheck
from rest_framework.exceptions import PermissionDenied
from rest_framework.request import Request

from web.rest.queries import StrictForm


class Form(StrictForm):
    """Base of all forms: the declared fields, and the token that names the page's session."""

    csrfmiddlewaretoken = serializers.CharField(default="", allow_blank=True)


def check_form(request: Request) -> None:
    """Refuse a form that was not on a page of this service, for every way to log in.

    REST checks this for sessions alone; a gateway's cookie would let a foreign page post too.
    """
    django = request._request  # noqa: SLF001 -- the check reads Django's request
    check = CSRFCheck(_no_response)
    check.process_request(django)
    if refused := check.process_view(django, _no_response, (), {}):
        raise PermissionDenied(f"The form is not, or no longer, good: {refused}")


def _no_response(request: HttpRequest) -> HttpResponse:
    """The view that the check wraps; it is never called."""
    raise NotImplementedError(request.path)
