"""The sentences on the page about installations that stop are those that helm and the service print."""

import re

import pytest

from localcluster.directories import CHECKOUT
from tests.chart.values import CHART, merged

PAGE = (CHECKOUT / "docs/how-to/installation-problems.md").read_text()
REFUSED = {
    "values don't meet the specifications of the schema": {"wbe": {}},
    "settings: … is no setting (docs/reference/settings.md)": {"settings": {"OSMO_WORKFLOW_DAY": 9}},
    "settings: … follows from another value of this chart": {"settings": {"OSMO_SERVICE_URL": "https://x"}},
    "…: name a Secret with …, or set quickstart.enabled to try the service": {
        "secretKey": {"existingSecret": ""}
    },
    "url: set the address that users type": {"url": ""},
    "logs: set exactly one of store, existingClaim, newClaim.enabled and ephemeral": {"logs": {"store": ""}},
    "taskNamespaces: … is the namespace of the service itself": {"taskNamespaces": [{"name": "default"}]},
    "….extraVolumes: there is a volume … already": {
        "web": {"extraVolumes": [{"name": "tmp", "emptyDir": {}}]}
    },
    "….extraVolumeMounts: there is no volume … in extraVolumes": {
        "web": {"extraVolumeMounts": [{"name": "more", "mountPath": "/more"}]}
    },
    "….extraVolumeMounts: something is mounted at … already": {
        "web": {
            "extraVolumes": [{"name": "more", "emptyDir": {}}],
            "extraVolumeMounts": [{"name": "more", "mountPath": "/tmp"}],
        }
    },
    "….extraEnv: … is set already, by this chart or by another value": {
        "web": {"extraEnv": [{"name": "POD_IP", "value": "127.0.0.1"}]}
    },
    "metrics.existingSecret: web shows its metrics with a token only": {
        "metrics": {"podMonitor": {"enabled": True}}
    },
}
WITH_A_CLUSTER = {
    "…: there is no … … in namespace …: create it first",
    "…: the … … has no key …",
    "…: there is no namespace …: create it first",
    "namespace … has release … of this chart already: give this one a namespace and a database of its own",
    "release … is installed, and … is not the next one: upgrade one minor release at a time",
}
"""Of what is there already: the chart has these texts, and other tests meet them on a real API server."""

OF_HELM = {"cannot re-use a name that is still in use"}
OF_OTHERS = {
    "canceling statement due to lock timeout",
    "unsupported startup parameter: options",
}
"""Sentences of PostgreSQL, its client and PgBouncer."""


def sentences(title):
    (section,) = (text for text in re.split(r"^## ", PAGE, flags=re.MULTILINE) if text.startswith(title))
    first_cells = re.findall(r"^\| (`.*?) \| ", section, re.MULTILINE)
    return {sentence for cell in first_cells for sentence in re.findall(r"`([^`]+)`", cell)}


def pattern(sentence):
    return ".*".join(map(re.escape, sentence.split("…")))


@pytest.mark.parametrize("sentence", REFUSED)
def test_helm_refuses_with_the_sentence(helm, sentence):
    assert re.search(pattern(sentence), helm.refusal(merged(REFUSED[sentence])), re.DOTALL)


def test_an_old_kubernetes_is_refused_with_the_sentence(helm):
    (sentence,) = (text for text in sentences("helm refuses") if "kubeVersion" in text)
    answer = helm.run("template", "train", str(CHART), "--kube-version", "1.29.0", values=merged({}))
    assert re.search(pattern(sentence), answer.stderr), answer.stderr


def test_every_sentence_of_helm_is_one_that_is_tried():
    shown = {text for text in sentences("helm refuses") if "kubeVersion" not in text}
    assert shown == REFUSED.keys() | WITH_A_CLUSTER | OF_HELM
    source = (CHART / "templates/checks.yaml").read_text().replace("%s", "…")
    assert {text for text in WITH_A_CLUSTER if text not in source} == set()


def test_the_other_sentences_are_in_the_service():
    source = "".join(path.read_text() for path in (CHECKOUT / "web").rglob("*.py"))
    source = re.sub(r'"\s*\n\s*f?"', "", source.replace("{_SECRET_LENGTH}", "32"))
    shown = sentences("The Job that migrates fails") | sentences("A process does not start")
    source = re.sub(r"\{\w+\}", "…", source)
    assert {text for text in shown - OF_OTHERS if text not in source} == set()


def test_the_page_names_releases_as_the_chart_does(helm):
    names = {f"{obj['kind'].lower()}/{obj['metadata']['name']}" for obj in helm.template(values=merged({}))}
    assert set(re.findall(r"(?:job|deployment)/[\w-]+", PAGE)) <= names
