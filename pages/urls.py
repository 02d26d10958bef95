"""Addresses of the pages."""

from django.urls import path, re_path
from django.views.generic import RedirectView

from pages import identity, login, not_found
from pages.clusters.views import OthersGroupPage, OthersPage
from pages.map.views import MapPage, MapPicture
from pages.map.what_if import WhatIfPage
from pages.pools.submit import SubmitPage
from pages.pools.views import HomePage, PoolPage, PoolsPage
from pages.workflows.views import AgainPage, CancelPage, WorkflowDetailPage, WorkflowsPage

app_name = "pages"
urlpatterns = [
    path("", RedirectView.as_view(pattern_name="pages:home")),
    path("ui/login", login.LoginPage.as_view(), name="login"),
    path("ui/login/identity", identity.start, name="identity-login"),
    path("ui/login/back", identity.back, name="identity-back"),
    path("ui/logged-out", identity.logged_out, name="logged-out"),
    path("ui/logout", login.LogoutPage.as_view(), name="logout"),
    path("ui/", HomePage.as_view(), name="home"),
    path("ui/pools", PoolsPage.as_view(), name="pools"),
    path("ui/pools/<config_name:name>", PoolPage.as_view(), name="pool"),
    path("ui/pools/<config_name:name>/submit", SubmitPage.as_view(), name="submit"),
    path("ui/pools/<config_name:name>/map", MapPage.as_view(), name="map"),
    path("ui/pools/<config_name:name>/map.svg", MapPicture.as_view(), name="map.svg"),
    path("ui/pools/<config_name:name>/what-if", WhatIfPage.as_view(), name="what-if"),
    path("ui/clusters/<config_name:name>", OthersPage.as_view(), name="cluster"),
    path(
        "ui/clusters/<config_name:backend>/<str:namespace>/<str:name>",
        OthersGroupPage.as_view(),
        name="others-group",
    ),
    path("ui/workflows", WorkflowsPage.as_view(), name="workflows"),
    path("ui/workflows/<str:name>", WorkflowDetailPage.as_view(), name="workflow"),
    path("ui/workflows/<str:name>/cancel", CancelPage.as_view(), name="cancel"),
    path("ui/workflows/<str:name>/again", AgainPage.as_view(), name="again"),
    re_path(r"^ui(?:/.*)?$", not_found.NotFoundPage.as_view()),
]
