"""``helm`` as an administrator runs it, on the chart in this checkout."""

import os
import subprocess

import pytest
import yaml

from localcluster import build
from tests.chart.values import CHART, merged


class Helm:
    """The program, with a home of its own: no plugin or repository of the machine plays a part."""

    def __init__(self, program, home):
        self._program, self._home = program, home
        self._rendered = {}

    def run(self, *arguments, values=None):
        text = yaml.safe_dump(values or {})
        own = {
            name: str(self._home)
            for name in ("HOME", "HELM_CACHE_HOME", "HELM_CONFIG_HOME", "HELM_DATA_HOME")
        }
        return subprocess.run(
            [self._program, *arguments, *([] if values is None else ["--values", "-"])],
            input=text,
            env={"PATH": os.environ["PATH"], **own},
            capture_output=True,
            text=True,
            check=False,
            timeout=240,
        )

    def template(self, *arguments, values, release="train", namespace="osmo-system"):
        """Every object that an installation would create, hooks too."""
        command = ("template", release, str(CHART), "--namespace", namespace, *arguments)
        key = (command, yaml.safe_dump(values))
        if key not in self._rendered:
            answer = self.run(*command, values=values)
            assert answer.returncode == 0, answer.stderr
            self._rendered[key] = answer.stdout
        return [document for document in yaml.load_all(self._rendered[key], yaml.CSafeLoader) if document]

    def forget(self):
        """Render anew what was rendered already."""
        self._rendered.clear()

    def refusal(self, values):
        """The message with which values are refused."""
        answer = self.run("template", "train", str(CHART), values=values)
        assert answer.returncode != 0, "these values are accepted"
        return answer.stderr


@pytest.fixture(scope="session")
def helm(tmp_path_factory):
    program = build.artefact(build.HELM)
    if not program.exists():
        pytest.skip("helm is not built: python -m localcluster.build chart")
    return Helm(program, tmp_path_factory.mktemp("helm"))


@pytest.fixture
def render(helm):
    """The objects of an installation with these values over the least that is needed."""
    return lambda changes=None, **options: helm.template(values=merged(changes or {}), **options)
