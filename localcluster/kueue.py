"""A real Kueue on a local cluster: its definitions, its webhooks and its manager.

The definitions and the webhooks' configuration are files of Kueue's module; the manager is the program
``kueue``, built from the same module. It ends at once where its kinds are not served yet, so they come first.
The webhooks stand last: until the manager listens, the API server would refuse every object of Kueue's.

Its webhooks use the API server's own certificate, which names this address and which clients trust already.
Kueue's usual limit of 50 requests a second would be the bottleneck of everything, as the scheduler's would.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

from localcluster import build
from localcluster.api import Api
from localcluster.controlplane import MANAGER, READY_SECONDS, Plane, http_probe, install
from localcluster.ports import LOOPBACK
from localcluster.supervisor import Command, Supervisor

GROUP = "kueue.x-k8s.io"
NAME = "kueue"
WEBHOOKS = "manifests.yaml"
PODS_READY = "2m"
"""The owner of a Workload has so long to say that its pods are ready, or Kueue evicts it."""

_KINDS = {
    "MutatingWebhookConfiguration": "mutatingwebhookconfigurations",
    "ValidatingWebhookConfiguration": "validatingwebhookconfigurations",
}


def start(supervisor: Supervisor, plane: Plane) -> None:
    """Install Kueue and start its manager; returns when it takes Workloads."""
    documents = build.documents(build.KUEUE_DOCUMENTS)
    health, port = plane.ports("kueue health", "kueue webhooks")
    command = _command(plane, health=health, port=port)
    api = Api(plane.access())
    install(api, definitions(documents))
    child = supervisor.start(command)
    probe = http_probe(f"http://{LOOPBACK}:{health}/readyz")
    supervisor.wait_ready(child, probe, seconds=READY_SECONDS)
    for body in _webhooks(documents, plane, port=port):
        path = f"/apis/admissionregistration.k8s.io/v1/{_KINDS[body['kind']]}/{body['metadata']['name']}"
        api.apply(path, body, manager=MANAGER)
    api.close()


def definitions(documents: Path) -> list[dict[str, Any]]:
    """Kueue's CustomResourceDefinitions, in a folder of ``build.KUEUE_DOCUMENTS``."""
    paths = sorted(documents.glob(f"{GROUP}_*.yaml"))
    return [yaml.load(path.read_text(), Loader=yaml.CSafeLoader) for path in paths]


def configuration_file(plane: Plane) -> Path:
    """The file with the manager's configuration."""
    return plane.directory / NAME / "config.yaml"


def _command(plane: Plane, *, health: int, port: int) -> Command:
    directory = plane.directory / NAME
    directory.mkdir(exist_ok=True)
    for name, file in {"tls.crt": "apiserver.crt", "tls.key": "apiserver.key"}.items():
        link = directory / name
        link.unlink(missing_ok=True)
        link.symlink_to(plane.directory / "certs" / file)
    configuration = configuration_file(plane)
    content = {
        "apiVersion": f"config.{GROUP}/v1beta2",
        "kind": "Configuration",
        "namespace": "kueue-system",
        "health": {"healthProbeBindAddress": f"{LOOPBACK}:{health}"},
        "metrics": {"bindAddress": "0"},
        "webhook": {"host": LOOPBACK, "port": port},
        "leaderElection": {"leaderElect": False},
        "internalCertManagement": {"enable": False},
        "clientConnection": {"qps": 500, "burst": 1000},
        "waitForPodsReady": {"timeout": PODS_READY},
        "integrations": {"frameworks": ["pod"]},  # must name one; this manager sets none up
    }
    configuration.write_text(yaml.safe_dump(content))
    argv = [
        str(build.binaries().kueue),
        f"--kubeconfig={plane.kubeconfig('kueue')}",
        f"--config={configuration}",
        f"--certificates={directory}",
    ]
    return Command(name=NAME, argv=argv)


def _webhooks(documents: Path, plane: Plane, *, port: int) -> Iterator[dict[str, Any]]:
    """The configurations of the webhooks for Kueue's own kinds, at this manager's address."""
    for body in yaml.safe_load_all((documents / WEBHOOKS).read_text()):
        hooks = [
            hook for hook in body["webhooks"] if all(GROUP in rule["apiGroups"] for rule in hook["rules"])
        ]
        for hook in hooks:
            service = hook["clientConfig"].pop("service")
            hook["clientConfig"] = {
                "url": f"https://{LOOPBACK}:{port}{service['path']}",
                "caBundle": plane.ca_bundle(),
            }
        yield body | {"metadata": {"name": f"kueue-{body['metadata']['name']}"}, "webhooks": hooks}
