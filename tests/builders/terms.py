"""Placements and requests whose terms a test changes by name, beside their other values."""

from dataclasses import fields, replace

from scheduling.terms import SchedulingTerms

TERMS = frozenset(field.name for field in fields(SchedulingTerms))


def changed(value, **changes):
    """A placement or a request of a gang with these values, its own or those of its terms."""
    terms = {name: changes.pop(name) for name in TERMS & changes.keys()}
    return replace(value, terms=replace(value.terms, **terms), **changes)
