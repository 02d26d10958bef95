"""Documentation of configuration that cannot rot: what the code has, the pages have."""

import re

import pytest

from localcluster.directories import CHECKOUT
from pools.api.urls import urlpatterns
from pools.documents.backend import BackendDocument
from pools.documents.pool import PlatformDocument, PoolDocument
from pools.documents.workflow import WorkflowConfigDocument

DOCS = CHECKOUT / "docs"
MODELS = "\n".join(page.read_text() for page in (DOCS / "reference" / "models").glob("*.md"))
NOT_CARRIED = re.compile(r"common_group|common_resource|resource_validations")


def test_every_address_has_a_heading_and_no_other():
    told = re.findall(
        r"^## `/(\S+)`", (DOCS / "reference" / "api-configuration.md").read_text(), re.MULTILINE
    )
    served = [re.sub(r"<config_name:(\w+)>", r"{\1}", str(entry.pattern)) for entry in urlpatterns]
    assert sorted(address.replace("{pool}", "{name}") for address in told) == sorted(served)


@pytest.mark.parametrize("shape", [PoolDocument, PlatformDocument, BackendDocument, WorkflowConfigDocument])
def test_every_field_is_explained(shape):
    fields = {name for name in shape.model_fields if not NOT_CARRIED.match(name)} - {"scheduler_settings"}
    assert {name for name in fields if f"{name}`" not in MODELS and f"{name}." not in MODELS} == set()
