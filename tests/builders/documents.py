"""Documents as text: what the parser makes of them, and what it says about them."""

import pytest

from scheduling.errors import InvalidSpec
from workflows.spec import SpecLimits, parse_workflow


def parse(text, *, variables=(), string_variables=(), limits=None, allow_localpath=False):
    return parse_workflow(
        text,
        variables=variables,
        string_variables=string_variables,
        limits=limits or SpecLimits(),
        allow_localpath=allow_localpath,
    )


def faults(text, **options):
    with pytest.raises(InvalidSpec) as refused:
        parse(text, **options)
    return refused.value.faults
