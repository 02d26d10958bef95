"""The variables of a template: those that a request sets as ``name=value``, and those that it needs."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

from jinja2 import Environment, meta, nodes

from scheduling.errors import Fault, InvalidSpec, Notice
from scheduling.sentences import did_you_mean, listing

MOST_NAMES = 100
"""Names that a fault lists, or that are reported."""
_LATER = ("uuid", "workflow_id", "output")


@dataclass(frozen=True, slots=True)
class Assignments:
    """The values of a request's variables, and where the request sets each."""

    values: Mapping[str, Any]
    places: Mapping[str, tuple[str, int]]
    notices: tuple[Notice, ...]

    @classmethod
    def of(cls, variables: Sequence[str], string_variables: Sequence[str]) -> Self:
        """Read ``k=v``: an int, else a float, else a string; of the second kind always a string."""
        faults, values, places, notices = [], {}, {}, []
        for source, pairs in (("set_variables", variables), ("set_string_variables", string_variables)):
            for index, pair in enumerate(pairs):
                name, equals, value = str(pair).partition("=")
                if not equals or not name.isidentifier():
                    message = f"{listing([str(pair)[:63]])} is not of the form name=value."
                    faults.append(Fault((source, index), "variable", message, allowed=("name=value",)))
                    continue
                values[name] = value if source == "set_string_variables" else _number_or_text(value)
                places[name] = (source, index)
                if str(values[name]) != value:
                    notices.append(_as_number(name, value, values[name]))
        if faults:
            raise InvalidSpec("Variables cannot be read.", faults)
        return cls(values, places, tuple(notices))

    def unknown(self, names: Collection[str]) -> list[Fault]:
        """The faults of variables that a template with these names does not have."""
        allowed = tuple(sorted(names)[:MOST_NAMES])
        return [
            Fault(place, "variable", _no_variable(name, allowed), allowed=allowed)
            for name, place in self.places.items()
            if name not in names
        ]


def names_in(tree: nodes.Template, environment: Environment) -> set[str]:
    """The names that a template takes from outside; those of Jinja's own functions where it uses them."""
    own = {node.name for node in tree.find_all(nodes.Name)} & environment.globals.keys()
    return meta.find_undeclared_variables(tree) | own


def needed_names(tree: nodes.Template) -> set[str]:
    """The names that a template takes from outside and does not ask whether they have a value."""
    tests = [test for test in tree.find_all(nodes.Test) if test.name in {"defined", "undefined"}]
    defaults = [call for call in tree.find_all(nodes.Filter) if call.name in {"default", "d"}]
    optional = {name.name for node in (*tests, *defaults) for name in node.find_all(nodes.Name)}
    return meta.find_undeclared_variables(tree) - optional


def no_value(name: str, values: Mapping[str, Any]) -> str:
    """What is wrong with the use of a variable without a value, with the name that was meant."""
    if name in _LATER:
        return f"that is filled in later and must be written without spaces: {{{{{name}}}}}"
    hint = did_you_mean(name, sorted(map(str, values))[:MOST_NAMES])
    ways = f"--set {name[:63]}=... or default-values give it one"
    return f'whose variable "{name[:63]}" has no value; {ways}.{hint}'


def _no_variable(name: str, names: Sequence[str]) -> str:
    if not names:
        return f'There is no variable "{name[:63]}" to set: the text has no variables.'
    return f'The template has no variable "{name[:63]}".{did_you_mean(name, names)}'


def _as_number(name: str, text: str, number: object) -> Notice:
    message = (
        f"{name[:63]}={text[:63]} sets the number {str(number)[:63]}. --set-string keeps what is written."
    )
    return Notice("template", message)


def _number_or_text(value: str) -> int | float | str:
    for kind in (int, float):
        try:
            return kind(value)
        except ValueError:
            continue
    return value
