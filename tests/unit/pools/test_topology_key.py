"""An attribute of a topology key is a column and a field of its document; all else follows from these."""

from pools.admin.key_editor import TopologyKeyForm, TopologyKeyInline
from pools.api.shapes import TopologyKeyShape
from pools.documents.pool import KEY_FIELDS, PoolDocument, key_rows
from pools.models import Pool, TopologyKey

KEYS = [{"key": "zone", "label": "example.com/zone"}, {"key": "rack", "label": "example.com/rack"}]


def test_columns_document_wire_and_editor_have_the_same_attributes():
    columns = {field.name for field in TopologyKey._meta.fields} - {"id", "pool", "position"}
    assert columns == set(KEY_FIELDS)
    assert set(TopologyKeyShape.model_fields) == set(KEY_FIELDS)
    assert set(TopologyKeyForm.Meta.fields) == set(TopologyKeyInline.fields) == {"position", *KEY_FIELDS}


def test_rows_take_every_attribute_and_their_position_from_the_document():
    rows = key_rows(PoolDocument(backend="kai", topology_keys=KEYS), Pool())
    assert [{name: getattr(row, name) for name in KEY_FIELDS} for row in rows] == KEYS
    assert [row.position for row in rows] == [0, 1]
