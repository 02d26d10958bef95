"""Labels and annotations that a scheduler treats pods by are not for users to set."""

from types import SimpleNamespace

import pytest

from scheduling.backends import registry
from scheduling.backends.registry import is_read_annotation, is_read_label
from workflows.manifests.labels import is_reserved


@pytest.mark.parametrize(
    "key",
    ["kai.scheduler/queue", "runai/queue", "runai-x", "a.run.ai/b", "priorityClassName", "pod-group-name"],
)
def test_kai_reads_labels(key):
    assert (is_read_label(key), is_read_annotation(key), is_reserved(key)) == (True, True, True)


@pytest.mark.parametrize("key", ["gpu-fraction", "gpu-memory"])
def test_kai_reads_annotations(key):
    assert (is_read_label(key), is_read_annotation(key), is_reserved(key)) == (False, True, False)


@pytest.fixture
def _own_domain(settings):
    settings.ENV = settings.ENV.model_copy(update={"pod_label_domains": ["example.com"]})


@pytest.mark.usefixtures("_own_domain")
@pytest.mark.parametrize("key", ["team", "example.com/kai.scheduler", "runaires"])
def test_other_keys_are_the_users_own(key):
    assert (is_read_label(key), is_read_annotation(key), is_reserved(key)) == (False, False, False)


def test_a_packages_scheduler_reserves_keys_of_its_own(monkeypatch):
    reader = SimpleNamespace(
        reads_label=lambda key: key == "bricks", reads_annotation=lambda key: key in ("bricks", "mortar")
    )
    monkeypatch.setattr(registry, "installed", lambda: {"toy": reader})
    assert (is_reserved("bricks"), is_reserved("mortar")) == (True, False)
    assert is_read_annotation("mortar")
