"""Callers who may write some objects of configuration, and their writes."""

from django.contrib.auth.models import User
from rest_framework.test import APIClient

from web.models import Role


def keeper_of(*resources):
    policies = [{"actions": ["config:*"], "resources": list(resources)}]
    Role.objects.create(name="keeper", policies=policies)
    user = User.objects.create_user("keeper")
    user.role_assignments.create(role="keeper")
    client = APIClient()
    client.force_authenticate(user)
    return client


def write(client, method, address, content):
    holder = "configs_dict" if method == "patch" else "configs"
    return getattr(client, method)(f"/api/configs/{address}", {holder: content}, format="json")
