"""Quantities are read as Kubernetes writes them; whatever else a cluster sends is no number."""

from decimal import Decimal

import pytest

from cluster.quantities import MOST, quantity
from workflows.values.amounts import NO_AMOUNTS, allocatable
from workflows.values.pod_usage import usage_of


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("0", "0"),
        ("-1", "-1"),
        ("+5", "5"),
        (".5", "0.5"),
        ("5.", "5"),
        ("1500m", "1.5"),
        ("3n", "0.000000003"),
        ("2k", "2000"),
        ("64Gi", "68719476736"),
        ("1.5Ki", "1536"),
        ("1e3", "1000"),
        ("1E-3", "0.001"),
        ("2E", "2000000000000000000"),
    ],
)
def test_a_quantity_is_read_exactly(text, number):
    assert quantity(text) == Decimal(number)


@pytest.mark.parametrize(
    "text",
    [
        "",
        " ",
        "NaN",
        "sNaN",
        "NaNm",
        "inf",
        "-Infinity",
        "InfinityKi",
        "1_000",
        "5 Gi",
        "\N{NO-BREAK SPACE}5",
        "٣",
        "0x10",
        "1ki",
        "1K",
        "1e3Ki",
        "1e3.5",
        "--5",
        "5 5",
        "e3",
        "m",
        "{}",
    ],
)
def test_other_text_is_no_quantity(text):
    with pytest.raises(ValueError, match="no quantity"):
        quantity(text)


@pytest.mark.parametrize("text", ["9" * 120, "1e400", "1e9999999", "1e" + "9" * 30, "9000000000Ei", "100E"])
def test_a_quantity_beyond_64_bits_is_the_largest(text):
    assert quantity(text) == MOST == 2**63 - 1
    assert quantity(f"-{text}") == -MOST


@pytest.mark.parametrize("text", ["1e-400", "1e-9999999", "1e-" + "9" * 30, "0." + "0" * 100 + "1", "0.1n"])
def test_a_quantity_below_all_units_is_the_least(text):
    """A number that is written out has ten digits, and not a million."""
    assert str(quantity(text)) == "1E-9"
    assert quantity(f"-{text}") == Decimal("-1e-9")


@pytest.mark.parametrize("text", ["0.0000000015", "1.5n"])
def test_a_quantity_finer_than_a_billionth_is_rounded_up(text):
    assert quantity(text) == Decimal("2e-9")


@pytest.mark.parametrize("unit", ["", "Ki", "E", "e9"])
def test_text_without_end_is_no_quantity(unit):
    with pytest.raises(ValueError, match="no quantity"):
        quantity("9" * 1_100_000 + unit)


@pytest.mark.parametrize("text", [" 5Gi", "5Gi\n", "\t5Gi \r\n"])
def test_white_space_around_a_quantity_does_not_count_as_in_an_api_server(text):
    assert quantity(text) == 5 * 2**30


@pytest.mark.parametrize(
    ("written", "cores"), [(8, 8), (0.5, Decimal("0.5")), (None, 0), (["8"], 0), ({}, 0)]
)
def test_an_amount_that_is_no_text_fails_no_request(written, cores):
    assert allocatable({"cpu": written}).cpu == cores


@pytest.mark.parametrize("text", ["NaN", "Infinity", "-Infinity", "sNaN", "NaNGi"])
def test_a_node_whose_amounts_are_no_numbers_has_none(text):
    names = ("nvidia.com/gpu", "cpu", "memory", "ephemeral-storage")
    assert allocatable(dict.fromkeys(names, text)) == NO_AMOUNTS


def test_a_node_has_no_more_than_kubernetes_can_count():
    most = allocatable(dict.fromkeys(("nvidia.com/gpu", "cpu", "memory", "ephemeral-storage"), "1e9999999"))
    assert (most.gpu, most.cpu, most.memory, most.storage) == (MOST, MOST, MOST, MOST)


@pytest.mark.parametrize("text", ["NaN", "Infinity", "sNaNm", "1e9999999", "-1e9999999"])
def test_a_pod_of_another_tenant_is_counted_whatever_it_requests(text):
    requests = {"nvidia.com/gpu": "2", "cpu": text}
    gpu, cpu, memory, storage, pods = usage_of({"containers": [{"resources": {"requests": requests}}]})
    assert (gpu, memory, storage, pods) == (2, 0, 0, 1)
    assert cpu >= 0
