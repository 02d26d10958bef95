"""The pins of a pod as its annotation has them, whoever wrote it."""

import pytest

from workflows.reconcile.objects.domains import pins_text
from workflows.reconcile.objects.repin import read_pins
from workflows.values.observation import PINS_ANNOTATION, see_pod


def test_pins_are_read_as_they_were_written():
    assert read_pins(pins_text({"zone": "a", "rack": ""})) == {"zone": "a", "rack": ""}
    assert read_pins(pins_text({})) == {}


@pytest.mark.parametrize(
    "text", [None, "", "x", "[]", "null", "5", '{"zone": 5}', '{"zone": null}', "[" * 5000]
)
def test_pins_that_are_not_ours_are_not_known(text):
    assert read_pins(text) is None


def test_an_annotation_that_is_too_long_is_not_kept():
    metadata = {"name": f"{'0' * 32}-0", "uid": "u", "namespace": "n", "resourceVersion": "1"}
    pod = {"metadata": metadata | {"annotations": {PINS_ANNOTATION: "x" * 200_000}}, "spec": {}, "status": {}}

    assert "pins" not in see_pod(pod).digest
