"""Every address of the service, and the composition root of the web process."""

from django.contrib import admin
from django.urls import include, path

from web.operation import health, metrics
from web.rest import errors
from web.views import not_offered
from web.views.admin_login import admin_login
from web.views.docs import DocsView, SchemaView

admin.autodiscover()
urlpatterns = [
    path("livez", health.livez),
    path("readyz", health.readyz),
    path("metrics", metrics.view),
    path("admin/login/", admin_login),
    path("", include("whatif.urls")),
    path("admin/", admin.site.urls),
    path("", include("web.urls")),
    path("", include("pools.api.urls")),
    path("", include("workflows.api.urls")),
    path("", include("doctor.urls")),
    path("", include("pages.urls")),
    path("api/schema", SchemaView.as_view(), name="schema"),
    path("api/docs", DocsView.as_view(url_name="schema"), name="docs"),
]

handler400 = errors.bad_request
handler403 = errors.forbidden
handler404 = not_offered.not_found
handler500 = errors.server_error
