"""The key of a user's own webhooks over REST."""

from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from web.access.permissions import Needs, caller
from web.policy import Action
from web.rest.own import OwnView
from web.rest.shapes import Shape, about
from workflows.news.sending import SIGNATURE, user_key


class NewsKeyShape(Shape):
    header: str = about("The header of a webhook with sha256= and the HMAC-SHA256 of its body, in hex.")
    key: str = about("The key of that, as UTF-8. It changes with OSMO_SECRET_KEY.")


class NewsKeyView(OwnView):
    access = {"GET": Needs(Action.AUTH_TOKEN)}

    @extend_schema(operation_id="get_news_key", responses=NewsKeyShape)
    def get(self, request: Request) -> Response:
        """Show the key that signs webhooks of the caller's workflows."""
        key = NewsKeyShape(header=SIGNATURE, key=user_key(caller(request).get_username()))
        return Response(key)
