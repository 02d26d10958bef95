"""The promises of a shortened name: it tells one sibling from another, and it is made of full words."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pages.short_names import domain_names, short_names


@pytest.mark.parametrize(
    ("names", "want"),
    {
        "hosts": (
            ["gb200-rack07-node-01.cluster.example", "gb200-rack07-node-13.cluster.example"],
            ["node-01", "node-13"],
        ),
        "racks": (["us-east-02a-rack06", "us-east-02a-rack07"], ["rack06", "rack07"]),
        "cliques": (["7c41f0a2-93d5.32766", "7c41f0b3-93d5.32766"], ["7c41f0a2", "7c41f0b3"]),
        "a letter keeps its word": (["z-a.1", "z-b.1"], ["z-a", "z-b"]),
        "words are not cut": (["rack106", "rack107"], ["rack106", "rack107"]),
        "other separators": (["spine_a/rack:left", "spine_a/rack:right"], ["left", "right"]),
        "the same": (["a.b", "a.b"], ["a.b", "a.b"]),
        "none": ([], []),
    }.values(),
    ids=str,
)
def test_siblings_lose_the_words_that_all_share(names, want):
    assert [name.part for name in short_names(names)] == want


@pytest.mark.parametrize(
    ("name", "place", "want"),
    [
        ("us-east-02a-block-1", "us-east-02a", "block-1"),
        ("us-east-02a-rack06", "us-east-02a-block-1", "rack06"),
        ("rack06", "rack06", "rack06"),
        ("rack06.example", "", "rack06.example"),
    ],
)
def test_a_single_name_loses_what_its_place_says(name, place, want):
    assert [short.part for short in short_names([name], within=place)] == [want]


def test_a_domain_is_named_by_what_it_adds_to_the_place_around_it():
    (name,) = domain_names([("us-east-02a", "us-east-02a-block-0", "us-east-02a-rack06")])
    assert name == ("us-east-02a/us-east-02a-block-0/us-east-02a-", "rack06", "")


def test_domains_of_one_name_are_named_by_their_paths():
    names = domain_names([("a", "r1"), ("b", "r1"), ("b", "r2")])
    assert [name.part for name in names] == ["a/r1", "b/r1", "b/r2"]


texts = st.builds("".join, st.lists(st.sampled_from([*"-._/:", "a", "rack", "07"]), max_size=6))


@given(names=st.lists(texts, unique=True, max_size=6), place=texts)
def test_no_two_names_become_the_same_and_each_is_a_part_of_its_own(names, place):
    short = short_names(names, within=place)
    assert len({name.part for name in short}) == len(names)
    assert [str(name) for name in short] == names
    assert all(name.part for name in short if str(name))
