"""A database that does not answer is told as what it is: try again later, and nothing about the inside."""

import psycopg
import pytest
from django.core.handlers.exception import convert_exception_to_response
from django.db import (
    DatabaseError,
    IntegrityError,
    InterfaceError,
    InternalError,
    OperationalError,
    ProgrammingError,
    transaction,
)
from django.test import RequestFactory

from web.rest.errors import handle

SECRET = 'connection to server at "10.0.0.7" failed: password'


def wrapped(kind, cause):
    """An error as Django's wrapper of a driver's error."""
    error = kind(SECRET)
    error.__cause__ = cause
    return error


def refused_after(cause):
    """A statement that Django refuses by itself, after an error that was caught in the same transaction."""
    error = transaction.TransactionManagementError("An error occurred in the current transaction.")
    error.__context__ = cause
    return error


AWAY = {
    "the server does not answer": OperationalError(SECRET),
    "the connection is closed": InterfaceError(SECRET),
    "an administrator ended the session": wrapped(
        OperationalError, psycopg.errors.AdminShutdown("terminating")
    ),
    "another server process crashed": wrapped(OperationalError, psycopg.errors.CrashShutdown("terminating")),
    "the server recovers": wrapped(OperationalError, psycopg.errors.CannotConnectNow("starting up")),
    "libpq's own words, without a SQLSTATE": wrapped(
        DatabaseError, psycopg.DatabaseError("lost synchronization")
    ),
    "a standby takes no writes": wrapped(InternalError, psycopg.errors.ReadOnlySqlTransaction("read-only")),
    "the transaction idled too long": wrapped(
        InternalError, psycopg.errors.IdleInTransactionSessionTimeout("timeout")
    ),
    "the transaction lasted too long": wrapped(InternalError, psycopg.errors.TransactionTimeout("timeout")),
    "the connection was lost earlier in the transaction": refused_after(OperationalError(SECRET)),
    "the block has lost its connection": refused_after(refused_after(InterfaceError(SECRET))),
}
FAULTS = {
    "a constraint": wrapped(IntegrityError, psycopg.errors.UniqueViolation("duplicate key")),
    "a table that is not there": wrapped(ProgrammingError, psycopg.errors.UndefinedTable("no relation")),
    "a transaction that goes on after an error": wrapped(
        InternalError, psycopg.errors.InFailedSqlTransaction("aborted")
    ),
    "a refusal after a constraint": refused_after(
        wrapped(IntegrityError, psycopg.errors.UniqueViolation("duplicate key"))
    ),
    "a fault of Python's": KeyError("x"),
}


@pytest.mark.parametrize("error", AWAY.values(), ids=AWAY)
def test_a_database_that_is_away_is_a_503_that_says_when_to_come_back(error):
    answer = handle(error, {})
    assert answer is not None
    assert answer.status_code == 503
    assert answer.headers["Retry-After"] == "2"
    assert "10.0.0.7" not in str(answer.data)
    assert answer.data["error_code"] == "SERVER"


@pytest.mark.parametrize("error", FAULTS.values(), ids=FAULTS)
def test_a_fault_of_ours_is_none(error):
    assert handle(error, {}) is None


def answer_of_django(error):
    """The answer where an error leaves a middleware, or a view that is none of REST."""

    def view(request):
        raise error

    return convert_exception_to_response(view)(RequestFactory().get("/"))


@pytest.mark.parametrize("error", AWAY.values(), ids=AWAY)
def test_so_it_is_where_no_view_of_rest_answers(error):
    answer = answer_of_django(error)
    assert answer.status_code == 503
    assert answer.headers["Retry-After"] == "2"
    assert b"10.0.0.7" not in answer.content


def test_a_fault_of_ours_is_a_500_there():
    answer = answer_of_django(KeyError("x"))
    assert answer.status_code == 500
    assert "Retry-After" not in answer.headers
