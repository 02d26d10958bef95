"""A cluster of the caller's own: the mistakes that people make in naming it."""

import pytest

from localcluster import given_cluster, stack

NOWHERE = """
apiVersion: v1
kind: Config
clusters: [{name: c, cluster: {server: "http://127.0.0.1:9"}}]
users: [{name: u, user: {token: t}}]
contexts: [{name: c, context: {cluster: c, user: u}}]
current-context: c
"""

BAD = {
    "no kubeconfig": "a: 1\n",
    "not YAML": ":\n\t- {",
    "a character no text holds": "\x00",
    "an empty file": "",
    "a certificate that is not there": NOWHERE.replace(
        '"http://127.0.0.1:9"', '"https://127.0.0.1:9", certificate-authority: /nowhere/ca.crt'
    ),
}


@pytest.mark.parametrize("content", BAD.values(), ids=BAD)
def test_a_file_that_cannot_be_used_is_named_in_one_line(tmp_path, content):
    path = tmp_path / "config"
    path.write_text(content)
    with pytest.raises(stack.GivenUnusable) as refused:
        given_cluster.check(path)
    assert str(path) in str(refused.value)
    assert "\n" not in str(refused.value)


def test_a_path_that_leads_nowhere_is_named(tmp_path, monkeypatch):
    monkeypatch.setenv("CLUSTER_KUBECONFIG", str(tmp_path / "typo"))
    given = stack.Options.from_environment()
    assert given.names() == ["CLUSTER_KUBECONFIG"]
    with pytest.raises(stack.GivenUnusable, match="typo"):
        given_cluster.check(given.kubeconfig)


def test_a_cluster_that_does_not_answer_is_told_and_not_fatal(tmp_path):
    path = tmp_path / "config"
    path.write_text(NOWHERE)
    given_cluster.check(path)
    assert "does not answer" in given_cluster.ensure_namespace(path, "osmo")
