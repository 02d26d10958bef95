"""Addresses of access."""

from django.urls import path

from web import scope, signin, tokens, version

urlpatterns = [
    path("api/version", version.VersionView.as_view()),
    path("api/configs/service", version.ServiceConfigView.as_view()),
    path("api/plugins/configs", scope.PluginsView.as_view()),
    path("api/auth/login", signin.LoginInfoView.as_view()),
    path("api/auth/jwt/access_token", signin.JwtView.as_view()),
    path("api/auth/access_token", tokens.TokensView.as_view()),
    path("api/auth/access_token/<str:name>", tokens.TokenView.as_view()),
]
