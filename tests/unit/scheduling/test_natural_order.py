"""Names with numbers in the order that people expect."""

from scheduling.natural_order import natural


def test_numbers_count_as_numbers():
    names = ["rack-10", "rack-2", "rack", "9", "10", "a1b10", "a1b9"]
    assert sorted(names, key=natural) == ["9", "10", "a1b9", "a1b10", "rack", "rack-2", "rack-10"]


def test_any_text_has_a_place():
    assert min("²", "x", "", "1" * 5000, "٣", key=natural) == ""
