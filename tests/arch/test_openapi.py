"""The OpenAPI document in docs/ is what the code describes now."""

from django.core.management import call_command

from localcluster.directories import CHECKOUT

PAGE = CHECKOUT / "docs" / "reference" / "openapi.yaml"


def test_the_document_is_that_of_the_code(tmp_path):
    """``make docs`` writes it anew."""
    call_command("spectacular", "--validate", "--fail-on-warn", "--file", str(tmp_path / "now.yaml"))
    assert (tmp_path / "now.yaml").read_text() == PAGE.read_text()
