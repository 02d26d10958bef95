"""Documents as people write them: what they meant is named where it is not what is read."""

import pytest

from tests.builders.documents import faults, parse

DOCUMENT = """\
workflow:
  name: train
  tasks:
    - name: one
      image: busybox
      command: [sleep, 5]
"""


INVISIBLE = {
    "a tab as indentation": ("workflow:\n\tname: a\n", 2, 1, "a tab (U+0009) stands here"),
    "a tab after a value": (DOCUMENT + "\ttimeout: {}\n", 7, 1, "a tab (U+0009) stands here"),
    "a tab after spaces": (DOCUMENT + "    \tlead: true\n", 7, 5, "a tab (U+0009) stands here"),
    "a tab before the first key": ("\tworkflow: 1\n", 1, 1, "a tab (U+0009) stands here"),
    "a no-break space after a colon": (
        DOCUMENT.replace("name: train", "name:\u00a0train"), 2, 8, "a no-break space (U+00A0) stands here. ",
    ),
    "no-break spaces in several lines": (
        DOCUMENT.replace(": ", ":\u00a0"), 2, 8, "stands here, as in 3 other lines. ",
    ),
    "a no-break space after a hyphen": (
        DOCUMENT.replace("- name", "-\u00a0name"), 4, 6, "a no-break space (U+00A0) stands here",
    ),
    "an ideographic space": (
        DOCUMENT.replace("name: train", "name:\u3000train"), 2, 8, "an ideographic space (U+3000)",
    ),
    "no-break spaces as indentation": (
        DOCUMENT.replace("  name: train", "\u00a0\u00a0name: train"), 2, 1, "a no-break space (U+00A0)",
    ),
    "a no-break space in a key": (
        DOCUMENT + "  timeout\u00a0: {}\n", 7, 3, "with a no-break space (U+00A0)",
    ),
    "a no-break space in a name": (
        DOCUMENT.replace("train", "my\u00a0train"), 2, 3, "with a no-break space (U+00A0)",
    ),
    "a tab in a name": (DOCUMENT.replace("train", '"my\\ttrain"'), 2, 3, "with a tab (U+0009)"),
}  # fmt: skip


@pytest.mark.parametrize(("text", "line", "column", "want"), INVISIBLE.values(), ids=INVISIBLE)
@pytest.mark.parametrize("ending", ["\n", "\r\n"])
def test_characters_that_nobody_sees_are_named_where_they_stand(text, line, column, want, ending):
    fault = faults(text.replace("\n", ending))[0]
    assert (fault.line, fault.column) == (line, column)
    assert want in fault.message


def test_a_no_break_space_in_a_text_is_not_blamed_for_another_fault():
    (fault,) = faults(DOCUMENT.replace("train", '"a: \u00a0b"').replace("[sleep, 5]", "[sleep"))
    assert "no-break" not in fault.message


UNITS = {"16k": "16K", "16gi": "16Gi", "16GB": "16G", "16mb": "16M", "16 gib": "16GiB", "16g": "16G"}


@pytest.mark.parametrize("amount", UNITS)
def test_a_unit_in_another_spelling_is_answered_with_the_right_one(amount):
    (fault,) = faults(DOCUMENT + f"  resources: {{default: {{memory: {amount}}}}}\n")
    assert f"Did you mean {UNITS[amount]}?" in fault.message


READINGS = {
    "a country": ("no", "False"),
    "a switch": ("on", "True"),
    "a truth value": ("true", "True"),
    "a version": ("3.10", "3.1"),
    "a mode": ("0755", "493"),
    "a time": ("12:30:45", "45045"),
    "hours and minutes": ("12:30", "750"),
    "a number with underscores": ("1_000", "1000"),
    "a hexadecimal number": ("0x1F", "31"),
    "an octal number as YAML 1.2 writes it": ("0o17", None),
    "no end": (".inf", "inf"),
    "a power of ten": ("1e3", None),
    "a power of ten with a point": ("1.0e+3", "1000.0"),
    "a date": ("2024-01-01", None),
    "a plain number": ("10", None),
    "a number in quotes": ("'0755'", None),
    "a number with a tag": ("!!str 0755", None),
}
PLACES = {
    "environment": "      environment: {lead: VALUE}\n",
    "a name": "    - {name: b, image: i, command: [c], resource: default, backend: VALUE}\n",
    "args": "      args: [a, VALUE]\n",
    "files": "      files: [{path: /a, contents: VALUE}]\n",
    "labels": "  labels: {team: VALUE}\n",
    "kpis": "      kpis: [{index: VALUE, path: a}]\n",
    "outputs": "      outputs: [{url: VALUE}]\n",
}


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize(("written", "read"), READINGS.values(), ids=READINGS)
def test_a_value_that_yaml_changes_is_accepted_with_both_readings_and_its_line(place, written, read):
    text = DOCUMENT + PLACES[place].replace("VALUE", written)
    warnings = [notice.message for notice in parse(text).warnings if "written" in notice.message]
    if read is None:
        assert warnings == []
        return
    (warning,) = warnings
    assert warning.startswith("Line 7: ")
    assert f'is written {written}, which YAML 1.1 reads as {read}. Write "{written}", with quotes' in warning


def test_a_flag_and_a_number_take_what_is_meant_without_a_warning():
    task = DOCUMENT + "      lead: yes\n      privileged: off\n      nvlink: false\n"
    assert parse(task + "  resources: {default: {cpu: 0x10, gpu: 1_0}}\n").warnings == ()
    (notice,) = parse(task + "  resources: {default: {gpu: 010}}\n").warnings
    assert "workflow.resources.default.gpu is written 010, which YAML 1.1 reads as 8." in notice.message


def test_the_same_words_in_many_tasks_are_one_warning_and_a_long_list_is_cut():
    tasks = "".join(
        f"    - {{name: t{i}, image: i, command: [c], environment: {{A: no, B{i}: 010}}}}\n"
        for i in range(30)
    )
    notices = [notice.message for notice in parse(DOCUMENT + tasks).warnings]
    assert len(notices) == 21
    assert "Line 7: workflow.tasks[1].environment.A and 29 other places is written no" in notices[0]
    assert notices[-1] == "YAML 1.1 reads 11 other values otherwise than written."


REFUSED = {
    "a name": (DOCUMENT.replace("name: train", "name: 010"), "It is written 010"),
    "a key of a Secret": (DOCUMENT + "      credentials: {token: {TOKEN: 010}}\n", "It is written 010"),
    "nothing": (DOCUMENT + "      environment: {A: ~}\n", '"" is the empty one'),
}


@pytest.mark.parametrize(("text", "want"), REFUSED.values(), ids=REFUSED)
def test_a_fault_of_a_value_that_yaml_changes_says_so(text, want):
    (fault,) = faults(text)
    assert want in fault.message


AMOUNTS = {
    "512": "512 bytes, for a number without a unit counts bytes. Write for example 512Mi.",
    "65536": "65,536 bytes, for a number",
    "512m": '1 byte, for "m" is a thousandth. Write for example 512M.',
    "64K": "64,000 bytes. Write for example 64M.",
    "64Ki": "65,536 bytes. Write for example 64Mi.",
    "512Mi": None,
    "17179869184": None,
    "0": None,
}


@pytest.mark.parametrize("kind", ["memory", "storage"])
@pytest.mark.parametrize("amount", AMOUNTS)
def test_an_amount_with_which_no_container_starts_gets_a_warning(kind, amount):
    warnings = parse(DOCUMENT + f"  resources:\n    default: {{{kind}: {amount}}}\n").warnings
    want = AMOUNTS[amount]
    assert [f"Line 8: workflow.resources.default.{kind} is {want}" in n.message for n in warnings] == (
        [True] if want else []
    )
