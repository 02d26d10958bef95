"""Errors of paths that OSMO has not have codes of their own; its own have those that its client knows."""

import pytest

from tests.error_shape import assert_error_shape

pytestmark = pytest.mark.django_db


@pytest.mark.parametrize(
    ("address", "code"),
    [
        ("/api/pool/nosuch/topology", "NOT_FOUND"),
        ("/api/pool/nosuch/nodes", "NOT_FOUND"),
        ("/api/workflow/nosuch-1/explain", "NOT_FOUND"),
        ("/api/doctor/9999", "NOT_FOUND"),
        ("/api/workflow/nosuch-1", "DATABASE"),
        ("/api/configs/pool/nosuch", "USER"),
    ],
)
def test_what_is_missing_has_the_code_of_its_path(admin, address, code):
    assert assert_error_shape(admin.get(address), 404)["error_code"] == code


def test_a_file_that_is_sent_where_another_one_rules_conflicts(admin, settings):
    text = "pools: {}"
    settings.ENV = settings.ENV.model_copy(update={"topology_config_file": "/etc/osmo/config.yaml"})
    answer = admin.put("/api/configs/file", {"file": text}, format="json")
    assert assert_error_shape(answer, 409)["error_code"] == "CONFLICT"
