"""Requests that cannot be read never reach a view."""

import json

import pytest
from django.http import HttpResponse
from django.test import RequestFactory

from web.rest.middleware import RequestIdMiddleware

UNREADABLE = {
    "a cookie": ({"HTTP_COOKIE": 'sessionid="\\000a"'}, "", 400, []),
    "a header": ({"HTTP_IDEMPOTENCY_KEY": "a\1"}, "", 400, []),
    "a NUL in a parameter": ({}, "pools=%00", 400, ["pools"]),
    "bytes in a parameter": ({}, "a=b&pools=%ff", 400, ["pools"]),
    "bytes in a name": ({}, "%ff=a", 400, []),
    "a path": ({"PATH_INFO": "/api/\0"}, "", 404, None),
}


def answer(headers, query, path="/api/pool"):
    passed = []

    def view(request):
        passed.append(request)
        return HttpResponse("{}")

    request = RequestFactory().get(path, **{"QUERY_STRING": query, **headers})
    return RequestIdMiddleware(view)(request), passed


@pytest.mark.parametrize("case", UNREADABLE)
def test_it_is_refused_before_any_view(case):
    headers, query, status, paths = UNREADABLE[case]
    response, passed = answer(headers, query)
    assert (response.status_code, passed) == (status, [])
    details = json.loads(response.content)["details"]
    assert paths is None or [detail["path"] for detail in details if detail["path"]] == paths


@pytest.mark.parametrize("query", ["a=%c3%a4", "env_vars=A=b%0Ac", "a", "", "a=b;c&d="])
def test_a_readable_request_reaches_its_view(query):
    response, passed = answer({"HTTP_COOKIE": "theirs=1"}, query)
    assert (response.status_code, len(passed)) == (200, 1)


def test_a_page_refuses_a_query_by_itself():
    response, passed = answer({}, "pool=%00", path="/ui/workflows")
    assert (response.status_code, len(passed)) == (200, 1)
