"""Lists and counts in sentences."""

import pytest

from scheduling.sentences import (
    agree,
    as_sentence,
    count_of,
    first,
    in_seconds,
    listing,
    plain_listing,
    plural,
)


@pytest.mark.parametrize(
    ("words", "want"),
    [
        ([], ""),
        (["a"], "a"),
        (["a", "b"], "a and b"),
        (["a", "b", "c"], "a, b and c"),
        ("abcde", "a, b, c and 2 more"),
    ],
)
def test_a_list_names_the_first_and_counts_the_others(words, want):
    assert plain_listing(words, limit=3) == want


def test_a_list_counts_what_its_caller_left_out():
    assert plain_listing(["a", "b"], limit=3, total=12) == "a, b and 10 more"


def test_quoted_words_stay_whole():
    assert listing(["a b", "c"]) == '"a b" and "c"'
    assert listing("abcdef") == '"a", "b", "c", "d", "e" and 1 more'


def test_items_of_any_kind_are_cut_and_counted():
    assert first([1, 2, 3], 2) == ([1, 2], "and 1 more")
    assert first([1, 2], 2) == ([1, 2], "")


def test_nouns_and_verbs_agree_with_their_number():
    assert [count_of(number, "task") for number in (0, 1, 2, 1200)] == [
        "0 tasks",
        "1 task",
        "2 tasks",
        "1,200 tasks",
    ]
    assert (plural(1, "node"), plural(2, "node")) == ("node", "nodes")
    assert (agree(1, "waits", "wait"), agree(3, "waits", "wait")) == ("waits", "wait")


@pytest.mark.parametrize(("text", "want"), [("a", "a."), ("a.", "a."), ("a?", "a?"), ("a (b)", "a (b).")])
def test_words_of_others_end_as_a_sentence(text, want):
    assert as_sentence(text) == want


@pytest.mark.parametrize(
    ("seconds", "words"),
    [(1, "1 second"), (0.5, "0.5 seconds"), (0, "0 seconds"), (2_592_000, "2592000 seconds")],
)
def test_seconds_are_written_as_in_a_setting(seconds, words):
    assert in_seconds(seconds) == words
