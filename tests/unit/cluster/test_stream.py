"""Lines come out of chunks whole, wherever the network cut them."""

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from cluster.stream import lines

TEXT = [b'{"type":"ADDED"}', b'{"name":"\xc3\xa4"}', b"3"]


@given(st.lists(st.integers(0, 40)))
def test_lines_do_not_depend_on_where_the_stream_is_cut(cuts):
    whole = b"\n".join(TEXT) + b"\n"
    edges = sorted({0, len(whole), *(cut for cut in cuts if cut < len(whole))})
    chunks = [whole[a:b] for a, b in pairwise(edges)]
    assert list(lines(chunks)) == TEXT


def test_a_line_without_its_end_is_dropped():
    assert list(lines([b'{"a":1}\n{"b":', b"2"])) == [b'{"a":1}']


def test_empty_lines_say_nothing():
    assert list(lines([b"\n\r\n1\n\n"])) == [b"1"]
