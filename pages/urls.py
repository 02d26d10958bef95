"""Addresses of the pages."""

from django.urls import path, re_path
from django.views.generic import RedirectView

from pages import missing, signin
from pages.pools.views import HomePage, PoolPage

app_name = "pages"
urlpatterns = [
    path("", RedirectView.as_view(pattern_name="pages:home")),
    path("ui/login", signin.Login.as_view(), name="login"),
    path("ui/logout", signin.Logout.as_view(), name="logout"),
    path("ui/", HomePage.as_view(), name="home"),
    path("ui/pools/<config_name:name>", PoolPage.as_view(), name="pool"),
    re_path(r"^ui(?:/.*)?$", missing.Missing.as_view()),
]
