"""Durations as OSMO writes them."""

import pytest

from pools.values.durations import parse_duration


@pytest.mark.parametrize(
    ("text", "want"),
    [
        ("90", 90),
        ("90s", 90),
        ("1.5h", 5400),
        ("60d", 60 * 86400),
        ("10 m", 600),
        ("500ms", 0.5),
        ("2us", 2e-6),
        ("PT8H", 8 * 3600),
        ("P1DT2H3M4.5S", 86400 + 7200 + 180 + 4.5),
        ("P2W", 14 * 86400),
    ],
)
def test_a_duration_is_read_in_seconds(text, want):
    assert parse_duration(text) == pytest.approx(want)


@pytest.mark.parametrize(
    "text", ["", "0", "-1", "1d12h", "soon", "8 hours", "P", "PT", "1e9", "٣h", "9" * 400]
)
def test_a_text_that_is_no_duration_is_refused_with_examples(text):
    with pytest.raises(ValueError, match="Examples: 90, 30m"):
        parse_duration(text)
