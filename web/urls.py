"""Addresses of access."""

from django.urls import path

from web.views import jwt_login, not_offered, tokens, version

urlpatterns = [
    path("api/version", version.VersionView.as_view()),
    path("api/router/version", version.RouterVersionView.as_view()),
    path("api/configs/service", version.ServiceConfigView.as_view()),
    path("api/plugins/configs", not_offered.PluginsView.as_view()),
    path("api/auth/login", jwt_login.LoginInfoView.as_view()),
    path("api/auth/jwt/access_token", jwt_login.JwtView.as_view()),
    path("api/auth/access_token", tokens.TokensView.as_view()),
    path("api/auth/access_token/<str:name>", tokens.TokenView.as_view()),
]
