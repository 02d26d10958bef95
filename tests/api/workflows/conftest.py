import pytest
from django.contrib.auth.models import User
from django.test import Client
from rest_framework.test import APIClient


@pytest.fixture
def api(ann):
    """A client of Ann's."""
    client = APIClient()
    client.force_authenticate(ann)
    return client


@pytest.fixture
def as_user():
    """A client of anybody's."""

    def log_in(name, **fields):
        client = APIClient()
        client.force_authenticate(User.objects.create_user(name, **fields))
        return client

    return log_in


@pytest.fixture
def browser(ann):
    """A browser of Ann's, who may do everything."""
    ann.is_superuser = ann.is_staff = True
    ann.save()
    client = Client()
    client.force_login(ann)
    return client
