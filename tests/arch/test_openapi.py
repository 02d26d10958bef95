"""The OpenAPI document in docs/ is what the code describes now."""

import yaml
from django.core.management import call_command

from localcluster.directories import CHECKOUT

PAGE = CHECKOUT / "docs" / "reference" / "openapi.yaml"


def test_the_document_is_that_of_the_code(tmp_path):
    """``make docs`` writes it anew."""
    call_command("spectacular", "--validate", "--fail-on-warn", "--file", str(tmp_path / "now.yaml"))
    assert (tmp_path / "now.yaml").read_text() == PAGE.read_text()


def operations():
    paths = yaml.safe_load(PAGE.read_text())["paths"]
    return [operation for path in paths.values() for operation in path.values()]


def test_every_body_is_json_of_a_described_shape():
    bodies = [operation["requestBody"]["content"] for operation in operations() if "requestBody" in operation]
    assert {tuple(content) for content in bodies} == {("application/json",)}
    assert all(content["application/json"]["schema"] for content in bodies)


def test_an_operation_is_named_by_a_verb_and_what_it_is_done_to():
    verbs = {operation["operationId"].partition("_")[0] for operation in operations()}
    reads = {"diff", "explain", "get", "list", "predict", "run", "watch"}
    creates = {"exchange", "make", "post", "put", "request", "restart", "submit", "tag"}
    changes = {"cancel", "clear", "delete", "patch", "rename", "revoke", "rollback", "set"}
    assert verbs == reads | creates | changes
