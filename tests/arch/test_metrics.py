"""Names of metrics: the page tells what the code counts, and dashboards and alerts name nothing else."""

import importlib
import json
import re

import pytest
import yaml
from prometheus_client import REGISTRY

from localcluster.directories import CHECKOUT
from web.env import Environment
from web.operation.metrics import renamed
from workflows.services.gauges import STATE

PAGE = (CHECKOUT / "docs" / "reference" / "metrics.md").read_text()
RUNBOOK = (CHECKOUT / "docs" / "how-to" / "runbook.md").read_text()
DASHBOARD = json.loads((CHECKOUT / "deploy" / "grafana" / "osmo-topology.json").read_text())
ALERTS = [
    rule
    for group in yaml.safe_load((CHECKOUT / "deploy" / "prometheus" / "alerts.yaml").read_text())["groups"]
    for rule in group["rules"]
]
PREFIX = Environment.model_fields["metrics_prefix"].default
SUFFIXES = {"histogram": ("_bucket", "_sum", "_count"), "counter": ("",), "gauge": ("",)}

for module in (
    "cluster.metrics",
    "web.children",
    "web.identity.counts",
    "web.operation.metrics",
    "web.server.counts",
    "workflows.metrics",
):
    importlib.import_module(module)


def declared():
    """(name as a scrape shows it, type, labels) of every metric of ours."""
    for metric in set(REGISTRY._names_to_collectors.values()):
        name = getattr(metric, "_name", "")
        if name.startswith("osmo_"):
            shown = f"{name}_total" if metric._type == "counter" else name
            yield as_shown(shown), metric._type, metric._labelnames
    for name, (_, labels) in STATE.items():
        yield as_shown(name), "gauge", labels


def as_shown(name):
    return renamed(name.encode(), prefix=PREFIX).decode()


def documented():
    row = re.compile(rf"^\| `({PREFIX}\w+)` \| (\w+) \|([^|]*)\|", re.MULTILINE)
    for name, kind, labels in row.findall(PAGE):
        yield name, kind, tuple(re.findall(r"`(\w+)`", labels))


def series():
    return {f"{name}{suffix}" for name, kind, _ in declared() for suffix in SUFFIXES[kind]}


def test_every_metric_is_documented_with_its_labels_and_no_other():
    assert set(documented()) == set(declared())


def test_no_label_carries_what_users_choose():
    labels = {label for _, _, labels in declared() for label in labels}
    few = {
        "asked",
        "backend",
        "cause",
        "cluster",
        "key",
        "kind",
        "method",
        "observer",  # host and process
        "outcome",
        "pool",
        "reason",
        "result",
        "route",
        "scheduler",
    }
    assert labels <= few | {"size", "state", "status", "verb"}


def test_the_dashboard_asks_for_metrics_that_exist_and_shows_all_of_them():
    asked = {
        name
        for panel in DASHBOARD["panels"]
        for target in panel["targets"]
        for name in re.findall(r"\bosmo_\w+", target["expr"])
    }
    assert asked <= series()
    untold = {name for name, _, _ in declared() if not any(query.startswith(name) for query in asked)}
    assert untold == set()


def test_the_dashboards_variables_narrow_every_metric_that_has_their_label():
    variables = {variable["name"] for variable in DASHBOARD["templating"]["list"]} - {"datasource"}
    assert variables == {"pool", "backend", "cluster"}
    labels_of = {
        f"{name}{suffix}": set(labels)
        for name, kind, labels in declared()
        for suffix in ("", *SUFFIXES[kind])
    }
    for panel in DASHBOARD["panels"]:
        for target in panel["targets"]:
            for name, matchers in re.findall(r"(osmo_\w+)(?:\{([^}]*)\})?", target["expr"]):
                narrowed = set(re.findall(r'(\w+)=~"\$\1"', matchers))
                assert narrowed == variables & labels_of[name], (panel["title"], name)


def test_the_dashboard_begins_with_an_overview():
    first, *others = DASHBOARD["panels"]
    assert (first["type"], first["title"]) == ("row", "Overview")
    assert {panel["type"] for panel in others[:6]} == {"stat"}
    assert len({panel["id"] for panel in DASHBOARD["panels"]}) == len(DASHBOARD["panels"])


@pytest.mark.parametrize("rule", ALERTS, ids=lambda rule: rule["alert"])
def test_an_alert_asks_for_metrics_that_exist_and_has_its_section(rule):
    assert set(re.findall(r"osmo_\w+", rule["expr"])) <= series()
    assert f"\n## {rule['alert']}\n" in RUNBOOK
    assert rule["annotations"]["runbook"].startswith(f"docs/how-to/runbook.md#{rule['alert'].lower()}: ")


def test_the_runbook_speaks_of_no_alert_that_is_gone():
    assert set(re.findall(r"^## (\w+)$", RUNBOOK, re.MULTILINE)) == {rule["alert"] for rule in ALERTS}
