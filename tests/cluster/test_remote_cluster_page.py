"""The page about remote clusters, typed in a shell: accounts, tokens and kubeconfigs by a real kubectl.

The token controller, which fills a token Secret in a cluster, does not run here: the test does it in between.
"""

import base64
import os
import re
import shutil
import subprocess
from contextlib import closing

import pytest
import yaml

from localcluster.api import Api
from localcluster.directories import CHECKOUT
from pools import services
from pools.models import Backend
from pools.preflight.cluster import read_cluster
from tests.e2e import rights

pytestmark = pytest.mark.django_db
PAGE = (CHECKOUT / "docs/how-to/remote-cluster.md").read_text()
ACCOUNTS = f"/api/v1/namespaces/{rights.SYSTEM}/serviceaccounts"
SECRETS = f"/api/v1/namespaces/{rights.SYSTEM}/secrets"


def typed(title):
    """What a person types below a heading; a line without a prompt goes on with the one before."""
    section = PAGE.split(f"\n## {title}\n")[1].split("\n## ")[0]
    (block,) = re.findall(r"^```console\n(.*?)^```", section, re.MULTILINE | re.DOTALL)
    return re.sub(r"^\$ ", "", block, flags=re.MULTILINE)


@pytest.fixture
def plane(plane_017):
    """Not the cluster whose audit log tells what the service asks for with the same accounts."""
    return plane_017


@pytest.fixture
def cluster_api(plane):
    with closing(Api(plane.access())) as api:
        yield api


@pytest.fixture
def shell(plane, cluster_api, namespace, tmp_path):
    if not shutil.which("kubectl"):
        pytest.skip("kubectl is not on this machine")
    (tmp_path / "deploy").symlink_to(CHECKOUT / "deploy")
    content = yaml.safe_load(plane.kubeconfig("admin").read_text())
    content["contexts"][0]["name"] = content["current-context"] = "remote"
    (tmp_path / "config").write_text(yaml.safe_dump(content))

    def run(commands):
        answer = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", commands.replace("team-a", namespace)],
            cwd=tmp_path,
            env={"PATH": os.environ["PATH"], "HOME": str(tmp_path), "KUBECONFIG": str(tmp_path / "config")},
            capture_output=True,
            text=True,
            check=False,
            timeout=120,
        )
        assert answer.returncode == 0, answer.stderr

    yield run
    for account in rights.ACCOUNTS:
        cluster_api.delete(f"{SECRETS}/{account}-token")


def fill(api, plane, account):
    """Write into a Secret what the token controller does."""
    secret = api.get(f"{SECRETS}/{account}-token")
    assert secret["type"] == "kubernetes.io/service-account-token"
    assert secret["metadata"]["annotations"]["kubernetes.io/service-account.name"] == account
    spec = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
    data = {
        "token": api.create(f"{ACCOUNTS}/{account}/token", spec)["status"]["token"].encode(),
        "ca.crt": plane.ca_file.read_bytes(),
    }
    encoded = {name: base64.b64encode(value).decode() for name, value in data.items()}
    api.patch(f"{SECRETS}/{account}-token", {"data": encoded})


def test_the_commands_of_the_page_give_each_process_its_own_kubeconfig(
    shell, plane, cluster_api, namespace, tmp_path
):
    shell(typed("1. Accounts in the remote cluster"))
    shell(typed("2. A token Secret for each account"))
    for account in rights.ACCOUNTS:
        fill(cluster_api, plane, account)
    shell(typed("3. A kubeconfig for each process"))
    for account in rights.ACCOUNTS:
        kubeconfig = str(tmp_path / f"{account}.kubeconfig")
        document = {"kubeconfig": kubeconfig, "k8s_namespace": namespace}
        services.put_backend(name=account, document=document, change=services.ConfigChange(username="root"))
        facts = read_cluster(Backend.objects.select_related("cluster").get(name=account))
        assert facts.probe.reachable, facts.probe.problem
        assert facts.username == f"system:serviceaccount:{rights.SYSTEM}:{account}"
