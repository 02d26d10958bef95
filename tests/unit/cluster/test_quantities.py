"""Quantities come from clusters too, and not all text that reads as a number is one."""

from decimal import Decimal

import pytest

from cluster.quantities import quantity


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("8", 8),
        ("1500m", Decimal("1.5")),
        ("64Gi", 64 * 2**30),
        ("-1", -1),
        ("9223372036854775807", 2**63 - 1),
    ],
)
def test_a_quantity_is_read_exactly(text, number):
    assert quantity(text) == number


@pytest.mark.parametrize("text", ["NaN", "Infinity", "-Infinity", "1e999999", "1e30", "-1e30", "eight", ""])
def test_what_no_quantity_can_be_is_refused(text):
    with pytest.raises(ValueError):  # noqa: PT011 -- by whoever reads it, with its own message
        quantity(text)
