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
    "a fault": (500, status(500, "InternalError"), errors.ServerFault),
    "a webhook that hangs": (
        500,
        status(
            500, message='Internal error occurred: failed calling webhook "a.b": context deadline exceeded'
        ),
        errors.WebhookUnanswered,
    ),
    "a conversion webhook that is gone": (
        500,
        status(
            500,
            message="conversion webhook for kueue.x-k8s.io/v1beta1, Kind=Workload failed: Post x: refused",
        ),
        errors.WebhookUnanswered,
    ),
    "a webhook that refuses": (
        403,
        status(403, "Forbidden", message='admission webhook "a.b" denied the request: no'),
        errors.RequestForbidden,
    ),
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
    assert doubtful == {
        "a fault",
        "a webhook that hangs",
        "a conversion webhook that is gone",
        "a proxy without a backend",
    }


def test_a_webhook_that_gives_no_answer_is_named_before_the_servers_words():
    for case, name in (
        ("a webhook that hangs", 'webhook "a.b"'),
        ("a conversion webhook that is gone", "webhook kueue.x-k8s.io/v1beta1, Kind=Workload"),
    ):
        code, body, _ = REPLIES[case]
        error = errors.from_reply(code, body)
        assert error.message.startswith(f"{name}, which the API server asks first, gave no answer. ")


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
