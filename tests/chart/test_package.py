"""The chart as one file, for clusters that cannot read a checkout."""

import yaml

from tests.chart.values import CHART, TABLE, merged
from web.release import VERSION


def test_a_packaged_chart_makes_the_same_objects_as_the_checkout(helm, tmp_path):
    """Files that the checkout links to are in the package."""
    answer = helm.run("package", str(CHART), "--destination", str(tmp_path))
    assert answer.returncode == 0, answer.stderr
    package = tmp_path / f"osmo-topology-{VERSION}.tgz"
    values = merged(TABLE["everything"])
    rendered = helm.run("template", "train", str(package), "--namespace", "osmo-system", values=values)
    assert rendered.returncode == 0, rendered.stderr
    objects = [document for document in yaml.safe_load_all(rendered.stdout) if document]
    assert objects == helm.template(values=values)
