"""The how-to pages name only what exists: commands with their options, settings, metrics, alerts, files."""

import argparse
import re
import shlex

import pytest
import typer.main
import yaml
from django.core.management import get_commands, load_command_class

from localcluster.directories import CHECKOUT
from osmo_topology_cli.main import app
from web.env import Environment
from workflows.values.counted import Counted, place_variables

HOW_TO = sorted((CHECKOUT / "docs/how-to").glob("*.md"))
METRICS = (CHECKOUT / "docs/reference/metrics.md").read_text()
CONDITIONS = (CHECKOUT / "docs/reference/conditions.md").read_text()
ALERTS = {
    rule["alert"]
    for group in yaml.safe_load((CHECKOUT / "deploy/prometheus/alerts.yaml").read_text())["groups"]
    for rule in group["rules"]
}
OTHER_VARIABLES = {
    "OSMO_ATTEMPT": "is a task's",
    "OSMO_MAX_ATTEMPTS": "is a task's",
    "OSMO_LAST_END": "is a task's",
    **dict.fromkeys(
        place_variables("a-0", Counted(entry="a", count=1, segment=1), rank=0, size=1, lead_host=""),
        "is a task's",
    ),
    "OSMO_SECRETS_DIR": "is read before the settings",
    "OSMO_ADMIN_PASSWORD": "is for make_administrator alone",
    "OSMO_TOKEN": "is the caller's",
    "OSMO_URL": "is the caller's",
    "OSMO_ERROR": "is a code of errors",
    "OSMO_CONFIG_FILE": "is OSMO's",
    "OSMO_CONFIG_FILE_DIR": "is OSMO's client's",
}
PAGES = pytest.mark.parametrize("page", HOW_TO, ids=lambda page: page.stem)


def typed(page, program):
    """The arguments after a program in each line that is typed, and in each piece of code with arguments."""
    text = re.sub(r"\\\n\s*", " ", page.read_text())
    blocks = re.findall(r"^```(?:console|sh)\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    prose = re.sub(r"^```.*?^```", "", text, flags=re.MULTILINE | re.DOTALL)
    for line in [*"".join(blocks).splitlines(), *re.findall(r"`([^`\n]+)`", prose)]:
        for command in re.findall(
            rf"(?:^|\$ |&& |python )(?:\w+=\S+ )*{re.escape(program)} ([^|;>#]+)", line
        ):
            if not re.match(r"[A-Z]", command):
                yield shlex.split(re.sub(r"\[[^\]]*\]", "", command))


@PAGES
def test_a_command_of_the_server_takes_its_arguments(page):
    for name, *arguments in typed(page, "manage.py"):
        assert name in get_commands(), name
        parser = load_command_class(get_commands()[name], name).create_parser("manage.py", name)
        parser.error = refuse
        if arguments:  # a sentence may name a command without what it needs
            parser.parse_args(arguments)


def refuse(message):
    raise argparse.ArgumentTypeError(message)


@PAGES
def test_a_command_of_the_client_takes_its_arguments(page):
    group = typer.main.get_command(app)
    for words in typed(page, "osmo-topology"):
        command, context = group, None
        while words and hasattr(command, "commands") and words[0] in command.commands:
            command = command.commands[words.pop(0)]
        assert command is not group or not words, words
        if words:
            context = command.make_context("osmo-topology", list(words), resilient_parsing=True)
            options = [word for word in words if word.startswith("--")]
            known = {name for parameter in context.command.params for name in parameter.opts}
            assert {option.partition("=")[0] for option in options} <= known


@PAGES
def test_a_variable_is_a_setting(page):
    known = {f"OSMO_{name.upper()}" for name in Environment.model_fields} | OTHER_VARIABLES.keys()
    named = set(re.findall(r"(?<![<\w])OSMO_[A-Z]+(?:_[A-Z]+)*(?![\w*]|_)", page.read_text()))
    assert named <= known


@PAGES
def test_a_metric_an_alert_and_a_condition_are_there(page):
    text = page.read_text()
    assert {
        name for name in re.findall(r"`(osmo_[a-z_]+[a-z])[`{]", text) if f"`{name}`" not in METRICS
    } == set()
    assert set(re.findall(r"`(Osmo[A-Z]\w+)`", text)) <= ALERTS
    conditions = re.findall(r"[Cc]onditions? (?:is )?\[?`(\w+)`", text)
    assert {name for name in conditions if f"`{name}`" not in CONDITIONS} == set()


@PAGES
def test_a_file_that_is_applied_is_in_the_repository(page):
    for path in re.findall(r"(?<![\w/.])((?:deploy|examples)/[\w./-]+[\w-])", page.read_text()):
        assert (CHECKOUT / path).exists(), path
