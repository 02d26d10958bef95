"""Callers of each kind of role, by name."""

from django.contrib.auth.models import User
from rest_framework.test import APIClient

from web.models import Role

WRITTEN = {
    "reader": [{"actions": ["workflow:List", "workflow:Read"], "resources": ["pool/mine"]}],
    "keeper": [{"actions": ["config:*"], "resources": ["pool/mine"]}],
}
CALLERS = {
    "nobody": (),
    "prefix": ("osmo-min",),
    "member": ("osmo-mine",),
    "reader": ("reader",),
    "keeper": ("keeper",),
    "user": ("osmo-user",),
    "admin": (),
}


def client_of(caller):
    user = User.objects.create_user(caller, is_staff=caller == "admin")
    for role in CALLERS[caller]:
        if role in WRITTEN:
            Role.objects.get_or_create(name=role, policies=WRITTEN[role])
        user.role_assignments.create(role=role)
    client = APIClient()
    client.force_authenticate(user)
    return client
