"""A database that answers and refuses every write, as a standby does and a server whose disk is full."""

import pytest
from django.db import connections

from tests.servers.conftest import default_database
from web.models import RateBucket
from web.operation import health


@pytest.fixture
def written_long_ago(monkeypatch):
    """No write of this process counts as recent."""
    monkeypatch.setattr(health, "_writes", (float("-inf"), "ok"))


@pytest.fixture
def read_only(transactional_db):
    options = connections["default"].settings_dict["OPTIONS"]
    also = f"{options.get('options', '')} -c default_transaction_read_only=on"
    with default_database(OPTIONS=options | {"options": also}):
        yield


@pytest.mark.usefixtures("written_long_ago", "read_only")
def test_readyz_says_that_a_database_refuses_writes(client):
    answer = client.get("/readyz").json()
    assert (answer["status"], answer["database"]) == ("degraded", "ok")
    assert answer["database writes"] == "refused; what is read goes on"


@pytest.mark.usefixtures("written_long_ago", "transactional_db")
def test_readyz_leaves_no_row_in_a_database_that_takes_writes(client):
    assert client.get("/readyz").json()["database writes"] == "ok"
    assert not RateBucket.objects.exists()


@pytest.mark.usefixtures("written_long_ago", "transactional_db")
def test_readyz_writes_now_and_then_and_not_each_time(client):
    client.get("/readyz")
    moment, _ = health._writes
    client.get("/readyz")
    assert health._writes[0] == moment > 0
