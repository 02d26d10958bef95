"""The API's pages for people: HTML for logged-in users, the login for other browsers, errors for programs.

``web.rest.schema`` is loaded with them: drf-spectacular finds the authentication schemes by that.
"""

from django.contrib.auth.views import redirect_to_login
from drf_spectacular.views import SpectacularJSONAPIView, SpectacularSwaggerView
from rest_framework.exceptions import NotAuthenticated
from rest_framework.renderers import JSONRenderer
from rest_framework.response import Response

from web.access.permissions import Needs
from web.policy import Action
from web.rest import schema as schema  # noqa: PLC0414 -- for what it registers


class SchemaView(SpectacularJSONAPIView):
    """The schema of the API."""

    access = {"GET": Needs(Action.SYSTEM_DOCS)}


class DocsView(SpectacularSwaggerView):
    """Swagger's page. Its renderer knows HTML alone and would answer an error with the bare status."""

    access = {"GET": Needs(Action.SYSTEM_DOCS)}

    def handle_exception(self, exc: Exception) -> Response:
        self.request.accepted_renderer = JSONRenderer()
        self.request.accepted_media_type = JSONRenderer.media_type
        if isinstance(exc, NotAuthenticated) and "text/html" in self.request.headers.get("Accept", ""):
            login = redirect_to_login(self.request.get_full_path())
            return Response(status=login.status_code, headers={"Location": login.url})
        return super().handle_exception(exc)
