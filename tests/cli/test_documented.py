"""The page on the command has every command and option, and no other."""

import re

import typer.main

from localcluster.directories import CHECKOUT
from osmo_topology_cli.main import app
from osmo_topology_cli.outcomes import Exit

PAGE = (CHECKOUT / "docs" / "reference" / "cli.md").read_text()
OPTION = re.compile(r"`(--?[a-z][a-z-]*)`")


def options(command):
    return {word for param in command.params for word in param.opts if word.startswith("-")}


def commands_of(group, before=""):
    """Every command by its words, those of groups too."""
    for name, command in group.commands.items():
        if hasattr(command, "commands"):
            yield from commands_of(command, f"{before}{name} ")
        elif not command.hidden:
            yield f"{before}{name}", command


def test_every_command_and_option_is_described_and_no_other():
    group = typer.main.get_command(app)
    first, *rest = re.split(r"^## `([\w -]+)`\n", PAGE, flags=re.MULTILINE)
    sections = dict(zip(rest[::2], rest[1::2], strict=True))
    commands = dict(commands_of(group))
    assert set(sections) == set(commands)
    for name, command in commands.items():
        assert set(OPTION.findall(sections[name])) - {"-"} == options(command), name
    assert options(group) <= set(OPTION.findall(first))


def test_every_command_and_option_says_what_it_does():
    for name, command in commands_of(typer.main.get_command(app)):
        assert command.help
        assert [param.name for param in command.params if not param.help] == [], name


def test_every_command_is_run_by_a_test():
    calls = "\n".join(path.read_text() for path in (CHECKOUT / "tests" / "cli").glob("test_*.py"))
    for name, _ in commands_of(typer.main.get_command(app)):
        words = r",\s*".join(f'"{word}"' for word in name.split())
        assert re.search(rf"(command|start|bare)\(\s*{words}", calls), name


def test_the_exit_codes_are_those_there_are():
    assert sorted(map(int, re.findall(r"^\| (\d+) \|", PAGE, re.MULTILINE))) == sorted(Exit)
