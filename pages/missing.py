"""The page at an address of the pages that leads nowhere."""

from django.http import HttpResponse
from rest_framework.exceptions import NotFound
from rest_framework.request import Request

from osmo_topology.web.permissions import Needs
from osmo_topology.web.policy import Action
from pages.base import Page


class Missing(Page):
    access = {"GET": Needs(Action.SYSTEM_VERSION)}

    def get(self, request: Request) -> HttpResponse:
        """Say that there is nothing here."""
        del request
        raise NotFound("There is no page at this address.")
