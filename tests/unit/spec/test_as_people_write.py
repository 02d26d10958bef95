"""Documents as people write them: what they meant is named where it is not what is read."""

import pytest

from scheduling.errors import InvalidSpec
from workflows.spec import SpecLimits, parse_workflow

DOCUMENT = """\
workflow:
  name: train
  tasks:
    - name: one
      image: busybox
      command: [sleep, 5]
"""


def parse(text, *, variables=(), string_variables=()):
    return parse_workflow(
        text,
        variables=variables,
        string_variables=string_variables,
        limits=SpecLimits(),
        allow_localpath=False,
    )


def faults(text, **options):
    with pytest.raises(InvalidSpec) as refused:
        parse(text, **options)
    return refused.value.faults


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
