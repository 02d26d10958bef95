"""Large texts are read in a process of their own, with the same result, and bounded."""

from dataclasses import replace

import pytest

from scheduling.errors import InvalidSpec
from workflows.spec import SpecLimits, is_expensive, parse_workflow, parsing, read_workflow, reading
from workflows.spec.reading import PlainText

LIMITS = SpecLimits()
OPTIONS = {"variables": (), "string_variables": (), "allow_localpath": False}


def document(*tasks, comment="# " + "x" * 20_000):
    lines = "".join(f"  - {{name: {name}, image: {image}, command: [a]}}\n" for name, image in tasks)
    return f"workflow:\n  name: a\n  tasks:\n{lines}{comment}"


GOOD = (("one", "b"), ("two", "c"))
TEXTS = {
    "no fault": document(*GOOD),
    "a fault of the grammar": document(("one", "[]"), ("two", "c")),
    "a fault of resolution": document(("one", "b"), ("one", "c")),
    "no YAML": document(("one", "}")),
    "no workflow": "a: 1" + document(comment="# " + "x" * 20_000),
    "a fault in a thousand": document(*((f"t-{n}", "[]") for n in range(1500))),
}


def result(read):
    try:
        spec = read()
    except InvalidSpec as error:
        return error.message, error.faults
    return spec.name, spec.groups, spec.rendered, spec.locate_faults(spec.faults), spec.warnings


@pytest.mark.parametrize("text", TEXTS.values(), ids=TEXTS)
def test_a_large_text_is_read_as_a_small_one_is(text):
    assert is_expensive(text)
    plain = PlainText(text=text, limits=LIMITS, allow_localpath=False)
    assert result(lambda: read_workflow(text, limits=LIMITS, **OPTIONS)) == result(plain.read)


def test_places_in_a_large_text_are_those_of_the_text():
    spec = read_workflow(document(*GOOD), limits=LIMITS, **OPTIONS)
    paths = [("workflow", "tasks", 1, "image"), ("workflow", "name"), ("workflow", "tasks", 7)]
    assert spec.places.locate_all(paths) == [(5, 17), (2, 3), (3, 3)]


def test_a_template_that_gives_a_large_text_is_rendered_and_read():
    template = document(*GOOD).replace("name: a\n", "name: {{ 'b' * 3 }}\n")
    spec = parse_workflow(template, limits=LIMITS, **OPTIONS)
    assert (spec.name, spec.template) == ("bbb", template)
    assert spec.rendered == document(*GOOD).replace("name: a\n", "name: bbb\n")


def test_the_output_of_a_template_is_bounded_in_bytes():
    with pytest.raises(InvalidSpec, match="it renders to over 1000 bytes"):
        read_workflow("{{ 'é' * 600 }}", limits=SpecLimits(size=1000), **OPTIONS)


BOUNDS = {
    "CPU": ({"cpu_seconds": 1, "seconds": 300.0}, "it needs over 1 s of CPU"),
    "memory": ({"memory": 2**20, "seconds": 300.0}, "it needs over 1 MiB of memory"),
    "time": ({"seconds": 0.01}, "it takes longer than 0.01 s"),
}


@pytest.mark.parametrize("bound", BOUNDS)
def test_a_text_that_meets_a_bound_of_reading_is_refused_and_the_bound_is_named(bound, monkeypatch):
    bounds, want = BOUNDS[bound]
    monkeypatch.setattr(reading, "READING_BOUNDS", replace(reading.READING_BOUNDS, **bounds))
    lists = ",".join("[" + ",".join(["[]"] * 9000) + "]" for _ in range(100))
    with pytest.raises(InvalidSpec, match=f"The document cannot be read: {want}") as refused:
        read_workflow(f"[{lists}]", limits=LIMITS, **OPTIONS)
    assert [fault.code for fault in refused.value.faults] == ["too_expensive"]


def test_a_small_text_starts_no_process(monkeypatch):
    monkeypatch.setattr(parsing, "read_in_child", None)
    assert parse_workflow(document(*GOOD, comment=""), limits=LIMITS, **OPTIONS).name == "a"
