"""Addresses of access."""

from django.urls import path

from osmo_topology.web import tokens

urlpatterns = [
    path("api/auth/access_token", tokens.TokensView.as_view()),
    path("api/auth/access_token/<str:name>", tokens.TokenView.as_view()),
]
