"""A database that does not answer is told as what it is: try again later, and nothing about the inside."""

import pytest
from django.db import InterfaceError, OperationalError

from web.errors import handle


@pytest.mark.parametrize("kind", [OperationalError, InterfaceError])
def test_a_database_that_is_away_is_a_503_that_says_when_to_come_back(kind):
    answer = handle(kind('connection to server at "10.0.0.7" failed: password'), {})
    assert answer.status_code == 503
    assert answer.headers["Retry-After"] == "2"
    assert "10.0.0.7" not in str(answer.data)
    assert answer.data["error_code"] == "SERVER"
