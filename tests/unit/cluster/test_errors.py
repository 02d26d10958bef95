"""Every reply of an API server becomes the error that its readers act on."""

import json

import pytest

from cluster import errors


def status(code, reason="", details=None, message="said so"):
    return json.dumps(
        {"kind": "Status", "code": code, "reason": reason, "details": details or {}, "message": message}
    ).encode()


REPLIES = {
    "a missing object": (404, status(404, "NotFound", {"name": "p", "kind": "pods"}), errors.ObjectNotFound),
    "a missing kind": (404, status(404, "NotFound"), errors.NotServed),
    "a missing group": (404, b"404 page not found\n", errors.NotServed),
    "a name that is taken": (409, status(409, "AlreadyExists", {"name": "p"}), errors.AlreadyExists),
    "a precondition": (409, status(409, "Conflict", {"name": "p"}), errors.WriteConflict),
    "a bad field": (422, status(422, "Invalid"), errors.Invalid),
    "an unknown field": (400, status(400, "BadRequest"), errors.Invalid),
    "a missing right": (403, status(403, "Forbidden"), errors.RequestForbidden),
    "a rejected token": (401, status(401, "Unauthorized"), errors.Unauthorized),
    "a request too many": (429, status(429, "TooManyRequests"), errors.TooManyRequests),
    "an old version": (410, status(410, "Expired"), errors.Expired),
    "an apply with an unknown field": (
        500,
        status(
            500, message="failed to create typed patch object (/q): .spec.x: field not declared in schema"
        ),
        errors.Invalid,
    ),
    "a failing webhook": (500, status(500, "InternalError"), errors.ServerFault),
    "a proxy without a backend": (503, b"<html>no healthy upstream</html>", errors.ServerFault),
    "a redirect": (302, b"", errors.ClusterUnreachable),
}


@pytest.mark.parametrize("case", REPLIES)
def test_each_reply_has_its_own_error(case):
    code, body, want = REPLIES[case]
    assert type(errors.from_reply(code, body)) is want


def test_only_a_fault_of_the_server_leaves_a_write_in_doubt():
    doubtful = {
        case for case, (code, body, _) in REPLIES.items() if errors.from_reply(code, body).maybe_applied
    }
    assert doubtful == {"a failing webhook", "a proxy without a backend"}


def test_a_refusal_names_the_fields():
    cause = {"reason": "FieldValueInvalid", "message": "must be positive", "field": "spec.minMember"}
    error = errors.from_reply(422, status(422, "Invalid", {"name": "g", "causes": [cause]}))
    assert error.causes == (errors.Cause("FieldValueInvalid", "must be positive", "spec.minMember"),)


def test_the_time_to_wait_comes_from_the_header_or_the_body():
    assert errors.from_reply(429, b"", headers={"Retry-After": "7"}).retry_after == 7
    assert errors.from_reply(429, status(429, "", {"retryAfterSeconds": 3})).retry_after == 3
    assert errors.from_reply(429, b"slow down").retry_after is None


def test_a_long_text_from_outside_is_cut():
    error = errors.from_reply(422, status(422, "Invalid", message="x" * 50_000))
    assert len(error.message) == errors.MESSAGE_CHARS


def test_the_text_says_which_request_it_was():
    error = errors.from_reply(403, status(403, message="no"), request="POST /api/v1/namespaces/a/pods")
    assert str(error) == "POST /api/v1/namespaces/a/pods: no"
