"""Answers whose text is long in coming."""

import http.client

from tests.factories import TaskGroupFactory


def test_the_headers_of_a_log_that_has_no_line_yet_come_at_once(web_server, token):
    """A client, or a proxy before it, gives up on an answer that does not begin."""
    waiting = TaskGroupFactory(pods=2)
    path = f"/api/workflow/{waiting.workflow.name}/logs"
    sent = f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1\r\n{token}\r\n\r\n"
    with web_server.connect(sent.encode()) as client:
        answer = http.client.HTTPResponse(client)
        answer.begin()
        assert answer.status == 200
        assert answer.getheader("Content-Type").startswith("text/plain")
