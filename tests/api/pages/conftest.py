import pytest
from django.contrib.auth.models import User
from django.test import Client


@pytest.fixture
def ann():
    return User.objects.create_user("ann", password="correct horse")


@pytest.fixture
def browser(ann):
    """Ann's browser, logged in; without scripts."""
    client = Client()
    client.force_login(ann)
    return client


@pytest.fixture
def browser_of():
    """A function that gives the browser of somebody with these roles and no others."""

    def log_in(name, *roles, **fields):
        user = User.objects.create_user(name, **fields)
        for role in roles:
            user.role_assignments.create(role=role)
        client = Client()
        client.force_login(user)
        return client

    return log_in
