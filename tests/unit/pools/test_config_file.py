"""A file of configuration that somebody sends: a large one is read in a process of its own, as any other."""

from dataclasses import replace

import pytest

from pools.documents import config_file
from pools.documents.config_file import read_config_file, read_untrusted_config_file
from scheduling.errors import Fault, InvalidSpec

FILE = "pools:\n  a: &a {backend: b}\n  c: *a\nworkflow: {x: [1, 2]}\n"
LARGE = FILE + "#" * 20_000


@pytest.mark.parametrize("text", [FILE, LARGE], ids=["aliases", "long"])
def test_a_large_file_is_read_as_a_small_one_is(text):
    file, want = read_untrusted_config_file(text), read_config_file(text)
    assert (file.objects, file.paths, file.faults) == (want.objects, want.paths, want.faults)


def test_places_of_a_large_file_are_kept():
    fault = read_untrusted_config_file(LARGE).located(Fault(("workflow", "x", 1), "value", "no"))
    assert (fault.line, fault.column) == (4, 19)


def test_a_large_file_that_is_no_yaml_is_refused_with_the_place():
    with pytest.raises(InvalidSpec) as refused:
        read_untrusted_config_file("pools: }\n" + LARGE)
    assert [(fault.code, fault.line, fault.column) for fault in refused.value.faults] == [
        ("yaml_syntax", 1, 8)
    ]


def test_a_file_that_meets_a_bound_is_refused_and_the_bound_is_named(monkeypatch):
    monkeypatch.setattr(config_file, "BOUNDS", replace(config_file.BOUNDS, cpu_seconds=1, seconds=300.0))
    lists = ",".join("[" + ",".join(["[]"] * 9000) + "]" for _ in range(100))
    with pytest.raises(InvalidSpec, match="The file cannot be read: it needs over 1 s of CPU"):
        read_untrusted_config_file(f"pools: [{lists}]")


def test_unknown_sections_without_end_are_counted():
    faults = read_config_file("\n".join(f"section{i}: 1" for i in range(500))).faults
    assert len(faults) == 101
    assert "400 more" in faults[-1].message
