"""Pod templates in the admin: the same checks, and where one is used."""

import pytest

from pools.models import PodTemplate
from tests.factories import PoolFactory

pytestmark = pytest.mark.django_db

ADD = "/admin/pools/podtemplate/add/"


def test_a_template_is_added_refused_beside_its_text_and_shows_its_users(admin_client):
    refused = admin_client.post(ADD, {"name": "shm", "content": "spec: {nodeName: x}"})
    assert "write nodeSelector" in refused.content.decode()
    assert not PodTemplate.objects.exists()
    assert admin_client.post(ADD, {"name": "shm", "content": "spec: {hostPID: true}"}).status_code == 302
    row = PodTemplate.objects.get()
    assert (row.content, row.revision) == ({"spec": {"hostPID": True}}, 1)
    PoolFactory(name="train", common_pod_template=["shm"])
    page = admin_client.get(f"/admin/pools/podtemplate/{row.pk}/change/").content.decode()
    assert "pool &quot;train&quot;" in page
    answer = admin_client.post(f"/admin/pools/podtemplate/{row.pk}/delete/", {"post": "yes"}, follow=True)
    assert "remove it there first" in answer.content.decode()
