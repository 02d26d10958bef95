"""The OpenAPI schema tells the truth about configuration."""

import pytest
from drf_spectacular.generators import SchemaGenerator
from drf_spectacular.validation import validate_schema

from pools.api import shapes

pytestmark = pytest.mark.django_db


def test_the_schema_is_made_without_a_warning(capfd):
    schema = SchemaGenerator().get_schema(public=True)
    validate_schema(schema)
    assert "/api/configs/pool/{name}" in schema["paths"]
    assert "arning" not in capfd.readouterr().err


@pytest.mark.parametrize(
    ("path", "shape"),
    [
        ("/api/configs/pool/train?verbose=true", shapes.PoolShape),
        ("/api/configs/backend/kai", shapes.BackendShape),
        ("/api/configs/workflow", shapes.WorkflowConfigShape),
        ("/api/pool/train/topology", shapes.PoolTopologyShape),
    ],
)
def test_replies_have_the_fields_of_the_schema(pool, ann, path, shape):
    told = set(shape.model_fields) - {"warnings"}
    assert set(ann.get(path).json()) == told


def test_the_list_of_pools_has_the_fields_of_the_schema(pool, ann):
    shown = ann.get("/api/pool").json()["pools"]["train"]
    assert set(shown) == set(shapes.MinimalPoolShape.model_fields)
