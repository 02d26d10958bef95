"""What is kept of a log that is too long, and how lines come out of chunks."""

import gzip

import pytest

from workflows.logs.text import LONGEST_LINE, bounded_text, pack, unpack, whole_lines

LONG = b"".join(b"line %04d\n" % number for number in range(1000))


def in_chunks(text, size):
    return (text[start : start + size] for start in range(0, len(text), size))


@pytest.mark.parametrize("size", [1, 7, 100, 100_000])
@pytest.mark.parametrize("text", [b"", b"one\n", b"one\ntwo", b"x" * 400])
def test_a_log_that_fits_is_kept_as_it_is(text, size):
    found = bounded_text(in_chunks(text, size), most=400)
    assert (found.text, found.left_out) == (text, 0)
    assert found.lines == len(text.splitlines())


@pytest.mark.parametrize("size", [1, 7, 100, 100_000])
def test_of_one_that_does_not_its_beginning_and_its_end_are_kept_in_whole_lines(size):
    found = bounded_text(in_chunks(LONG, size), most=400)
    lines = found.text.decode().splitlines()
    cut = next(index for index, line in enumerate(lines) if line.startswith("(osmo-topology:"))
    begin, end = lines[:cut], lines[cut + 1 :]
    assert begin == LONG.decode().splitlines()[: len(begin)]
    assert end == LONG.decode().splitlines()[-len(end) :]
    assert (len(begin), len(end)) == (10, 29)
    assert lines[cut] == f"(osmo-topology: {found.left_out} bytes are left out here)"
    assert found.left_out + 10 * len(begin) + 10 * len(end) == len(LONG)
    assert found.lines == 1000


def test_a_line_without_end_is_cut_where_it_must_be():
    found = bounded_text(in_chunks(b"x" * 10_000, 64), most=400)
    assert found.left_out == 9600
    assert len(found.text) < 500
    assert b"\n(osmo-topology: 9600 bytes are left out here)\n" in found.text


def test_lines_come_whole_however_they_were_sent():
    text = b"one\ntwo\n\nthree"
    for size in (1, 3, 100):
        assert list(whole_lines(in_chunks(text, size))) == [b"one", b"two", b"", b"three"]
    assert [len(line) for line in whole_lines([b"x" * (LONGEST_LINE + 5)])] == [LONGEST_LINE, 5]


def test_a_log_is_packed_the_same_each_time_and_unpacked_up_to_a_bound(monkeypatch):
    assert pack(LONG) == pack(LONG) != LONG
    assert unpack(pack(LONG)) == LONG
    monkeypatch.setattr("workflows.logs.text.MOST_UNPACKED", 100)
    assert unpack(gzip.compress(LONG)) == LONG[:100]
