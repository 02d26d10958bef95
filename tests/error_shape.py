"""The one shape of an error, asserted in one place."""

KEYS = {"message", "error_code", "workflow_id", "details", "request_id"}
DETAIL_KEYS = {"path", "line", "column", "code", "message", "allowed"}


def assert_error_shape(answer, status, *, code=None):
    """Check an error's status, keys and types; ``code`` is a fault that must be among its details.

    Returns the body.
    """
    body = answer.json()
    assert answer.status_code == status, body
    assert set(body) == KEYS
    assert body["message"]
    assert body["error_code"]
    assert body["request_id"] == answer["X-Request-ID"]
    for detail in body["details"]:
        assert set(detail) == DETAIL_KEYS
        assert detail["code"]
        assert detail["message"]
        assert (detail["line"] is None) == (detail["column"] is None)
        assert detail["allowed"] is None or all(isinstance(each, str) for each in detail["allowed"])
    if code is not None:
        assert code in {detail["code"] for detail in body["details"]}, body["details"]
    return body
