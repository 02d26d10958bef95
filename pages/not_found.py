"""The page for an address that no page has."""

from django.http import HttpResponse
from rest_framework.exceptions import NotFound
from rest_framework.request import Request

from pages.base import PageView
from web.access.permissions import Needs
from web.policy import Action


class NotFoundPage(PageView):
    access = {"GET": Needs(Action.SYSTEM_VERSION)}

    def get(self, request: Request) -> HttpResponse:
        """Answer 404 with a page."""
        del request
        raise NotFound("There is no page at this address.")
