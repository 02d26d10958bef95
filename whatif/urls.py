"""The address of what-if, and its page in the admin."""

from django.contrib import admin
from django.urls import path

from whatif.admin import what_if_page
from whatif.api import WhatIfView

urlpatterns = [
    path(
        "admin/pools/pool/<str:object_id>/what-if/",
        admin.site.admin_view(what_if_page),
        name="pool_what_if",
    ),
    path("api/pool/<str:pool>/what-if", WhatIfView.as_view()),
]
