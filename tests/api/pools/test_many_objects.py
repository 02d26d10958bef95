"""Many objects in one request: a bound, and a cost that does not grow with the square of their number."""

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from pools.models import PodTemplate, Pool
from pools.services.recording import MAX_OBJECTS
from tests.api.pools.conftest import POOL
from tests.error_shape import assert_error_shape

pytestmark = pytest.mark.django_db

MANY = range(MAX_OBJECTS + 1)
TOO_MANY = {
    "pools": ("/api/configs/pool", {"configs": {f"p{i}": POOL for i in MANY}}, "configs"),
    "templates": ("/api/configs/pod_template", {"configs": {f"t{i}": {} for i in MANY}}, "configs"),
    "pools of a file": (
        "/api/configs/file",
        {"file": "pools:\n" + "".join(f"  p{i}: {{backend: kai}}\n" for i in MANY)},
        "pools",
    ),
}


@pytest.mark.parametrize("case", TOO_MANY)
def test_too_many_objects_are_refused_before_any_is_checked(case, admin, kai):
    address, body, path = TOO_MANY[case]
    answer = admin.put(address, body, format="json")
    assert_error_shape(answer, 400)
    [fault] = answer.json()["details"]
    assert (fault["code"], fault["path"], fault["allowed"]) == ("too_many_objects", path, [str(MAX_OBJECTS)])
    assert not Pool.objects.exists()
    assert not PodTemplate.objects.exists()


def statements(send):
    with CaptureQueriesContext(connection) as queries:
        send()
    return queries.captured_queries


def test_no_template_is_read_again_for_each_template_of_a_file(admin, kai):
    def send(first, number):
        sections = "".join(
            f"  t{i}: {{metadata: {{annotations: {{a: b}}}}}}\n" for i in range(first, first + number)
        )
        answer = admin.put("/api/configs/file", {"file": f"pod_templates:\n{sections}"}, format="json")
        assert answer.status_code == 200, answer.json()

    def whole_reads(first, number):
        return sum(
            'FROM "pools_podtemplate"' in query["sql"] and "WHERE" not in query["sql"]
            for query in statements(lambda: send(first, number))
        )

    assert whole_reads(0, 2) == whole_reads(2, 12)


def test_the_backends_are_listed_for_as_many_pools_as_have_their_faults_listed(admin, kai, monkeypatch):
    monkeypatch.setattr("pools.services.pools.MAX_FAULTS", 5)

    def refused(number):
        configs = {f"p{i}": {"backend": "nope"} for i in range(number)}
        answer = admin.put("/api/configs/pool", {"configs": configs}, format="json")
        assert answer.status_code == 400
        return answer

    assert len(statements(lambda: refused(20))) == len(statements(lambda: refused(60)))
