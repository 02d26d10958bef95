"""The local cluster: a real etcd, API server, scheduler and controller manager, and kwok's nodes.

Started in that order as children of a supervisor and stopped in the reverse one; the data
directory may hold a cluster of an earlier run, which is then as it was. Not obvious:

- the gates and two versions of ``scheduling.k8s.io`` are Kubernetes' own gang scheduling, with composite pod
  groups, on the API server, the scheduler and the controller manager alike;
- ``podgroup-protection-controller`` must run, or no PodGroup of that API is ever deleted;
- the scheduler's default client limit (50 requests/s) would be the bottleneck of everything;
- the API server makes its own serving certificate with its CA in ``--cert-dir``. That file is the
  ``certificate-authority`` of every kubeconfig here, and the pair serves kwok's kubelet port too;
- ``--shutdown-watch-termination-grace-period``: without it a watch that a client leaves open keeps the
  API server from its end for as long as the watch may last;
- ``--allow-privileged``: a pool may allow it, so the cluster does;
- Kubernetes' own controllers taint nodes that are not ready or cordoned, and evict pods from them. kwok
  renews a lease for each node it plays; ``nodes.stop_kubelet`` ends that for one node. A renewal may be late
  by minutes before a node counts as unreachable, because a loaded machine must not lose its nodes. While no
  node of a cluster is ready, that controller keeps the taints that evict pods to itself;
- the admission plugin that taints new nodes until they are ready is off: a pod would wait for it.

Identities are static tokens in files that only their owner can read. RBAC is on.
"""

import json
import secrets
import subprocess
import time
from base64 import b64encode
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any, Literal

import urllib3
import yaml

from localcluster.api import Access, Api, ApiError
from localcluster.build import Binaries
from localcluster.crds import kai, nvidia
from localcluster.nodes import KUBELET_LABEL
from localcluster.ports import LOOPBACK, free_ports, lasting_ports
from localcluster.supervisor import Command, Supervisor

GATES = (
    "GenericWorkload",
    "TopologyAwareWorkloadScheduling",
    "PodGroupPreemptionPolicy",
    "DRAWorkloadResourceClaims",
)
COMPOSITE_GATE = "CompositePodGroup"
GANG_API = "scheduling.k8s.io/v1beta1"
COMPOSITE_API = "scheduling.k8s.io/v1alpha3"
CONTROLLERS = (
    "garbage-collector-controller,namespace-controller,serviceaccount-controller,"
    "resourceclaim-controller,podgroup-protection-controller,pod-garbage-collector-controller,"
    "node-lifecycle-controller,taint-eviction-controller,resourcequota-controller"
)
WORKLOAD_CONTROLLERS = (
    "deployment-controller,replicaset-controller,job-controller,endpointslice-controller,"
    "root-ca-certificate-publisher-controller"
)
DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
LEASES = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases"
LEASE_SECONDS = 120  # kwok renews a quarter before
LEASE_ANSWER_SECONDS = 10.0
"""An API server without its etcd takes a minute to refuse, and whoever asks could start etcd again."""
NODE_GRACE_SECONDS = 240
STAGES = Path(__file__).with_name("stages.yaml")
READY_SECONDS = 150
MANAGER = "localcluster"
KWOK = "kwok"
ECHO_PORT = 7  # of every pod that kwok plays; says again what it hears, and no other port of them answers
AUDITED = "osmo-topology"

Identity = Literal["admin", "osmo", "standins", "scheduler", "controller-manager", "kwok", "kueue"]
# name of the identity -> its groups; system:masters is what RBAC always allows
IDENTITIES: dict[Identity, tuple[str, ...]] = {
    "admin": ("system:masters",),
    "osmo": ("osmo-topology",),  # nothing but what is granted to this group
    "standins": ("system:masters",),
    "scheduler": ("system:masters",),
    "controller-manager": ("system:masters",),
    "kwok": ("system:masters",),
    "kueue": ("system:masters",),
}


@dataclass(frozen=True, slots=True)
class Plane:
    """A running control plane."""

    directory: Path
    server: str
    tokens: dict[Identity, str]
    composites: bool = True
    lasting: bool = False
    """Whether it is to be there again after an end of the machine, under the same addresses."""

    def ports(self, *names: str) -> list[int]:
        """Free ports for its servers."""
        if self.lasting:
            return lasting_ports(self.directory / "ports.json", *names)
        return free_ports(len(names))

    @property
    def feature_gates(self) -> str:
        gates = (*GATES, COMPOSITE_GATE) if self.composites else GATES
        return ",".join(f"{gate}=true" for gate in gates)

    @property
    def runtime_config(self) -> str:
        apis = (GANG_API, COMPOSITE_API) if self.composites else (GANG_API,)
        return ",".join(f"{api}=true" for api in apis)

    @property
    def ca_file(self) -> Path:
        return self.directory / "certs" / "apiserver.crt"

    @property
    def audit_log(self) -> Path:
        """The requests of namespace AUDITED's accounts to the API server, one JSON document a line."""
        return self.directory / "audit.log"

    def ca_bundle(self) -> str:
        """The certificates to trust, as an object of the API names them."""
        return b64encode(self.ca_file.read_bytes()).decode()

    def kubeconfig(self, identity: Identity = "admin") -> Path:
        return self.directory / f"{identity}.kubeconfig"

    def access(self, identity: Identity = "admin") -> Access:
        return Access(server=self.server, ca_file=self.ca_file, token=self.tokens[identity])


def start(
    supervisor: Supervisor,
    *,
    directory: Path,
    binaries: Binaries,
    kai_version: kai.Version = "0.13",
    workloads: bool = False,
    composites: bool = True,
    lasting: bool = False,
) -> Plane:
    """Start the cluster and install the definitions; raises ServerFailed if a part does not come up.

    Without ``composites`` it serves and knows no composite pod groups. ``workloads`` adds the controllers of
    Deployments, Jobs and Services. Tests that make such objects share other clusters, where nobody should act
    on them.
    """
    directory.mkdir(parents=True, exist_ok=True, mode=0o700)
    plane = Plane(
        directory=directory,
        server="",
        tokens=_tokens(directory),
        composites=composites,
        lasting=lasting,
    )
    etcd_port, peer_port, api_port, kwok_port = plane.ports("etcd", "etcd peer", "kube-apiserver", "kwok")
    plane = replace(plane, server=f"https://{LOOPBACK}:{api_port}")
    _start_etcd(supervisor, plane, binaries, port=etcd_port, peer_port=peer_port)
    _start_api_server(supervisor, plane, binaries, port=api_port, etcd_port=etcd_port)
    _write_kubeconfigs(plane)
    for command in (_scheduler(plane, binaries), _controller_manager(plane, binaries, workloads=workloads)):
        supervisor.start(command)
    api = Api(plane.access())
    install_definitions(api, kai_version=kai_version)
    _start_kwok(supervisor, plane, binaries, port=kwok_port)
    _wait_for_service_accounts(supervisor, api)
    supervisor.check()
    api.close()
    return plane


def install_definitions(api: Api, *, kai_version: kai.Version) -> None:
    """Install KAI's and NVIDIA's kinds, and wait until the API server serves and checks them."""
    for device_class in nvidia.device_classes():
        name = device_class["metadata"]["name"]
        api.apply(f"/apis/resource.k8s.io/v1/deviceclasses/{name}", device_class, manager=MANAGER)
    install(api, [*kai.definitions(kai_version), *nvidia.definitions()])
    _install_kai_webhook(api, kai_version=kai_version)


def install(api: Api, definitions: Sequence[dict[str, Any]]) -> None:
    """Install definitions, and wait until the API server serves and checks their kinds."""
    for definition in definitions:
        api.apply(f"{DEFINITIONS}/{definition['metadata']['name']}", definition, manager=MANAGER)
    for definition in definitions:
        name = definition["metadata"]["name"]
        _wait(partial(_is_served, api, name), state=f"{name} to be served")
        _wait(partial(_listed, api, definition), state=f"objects of {name} to be listed")


def _install_kai_webhook(api: Api, *, kai_version: kai.Version) -> None:
    """Refuse what KAI's webhook refuses. A policy takes effect a moment after it exists, so wait for it."""
    group = "/apis/admissionregistration.k8s.io/v1"
    plurals = ("validatingadmissionpolicies", "validatingadmissionpolicybindings")
    for plural, body in zip(plurals, kai.webhook(kai_version), strict=True):
        api.apply(f"{group}/{plural}/{body['metadata']['name']}", body, manager=MANAGER)
    _wait(partial(_refuses_doubled_names, api), state="pod groups with doubled names to be refused")


def _refuses_doubled_names(api: Api) -> bool:
    sub_groups = [{"name": "a", "minMember": 1}] * 2
    pod_group = {
        "apiVersion": "scheduling.run.ai/v2alpha2",
        "kind": "PodGroup",
        "metadata": {"name": "doubled"},
        "spec": {"subGroups": sub_groups},
    }
    path = "/apis/scheduling.run.ai/v2alpha2/namespaces/default/podgroups"
    try:
        api.call("POST", path, body=pod_group, query={"dryRun": "All"})
    except ApiError as error:
        return error.code == 422
    return False


def create_namespace(api: Api, name: str) -> None:
    """Create a namespace and wait for its service account, without which pods are refused."""
    api.create("/api/v1/namespaces", {"metadata": {"name": name}})
    _wait(
        lambda: api.find(f"/api/v1/namespaces/{name}/serviceaccounts/default") is not None,
        state=f"the default service account of namespace {name}",
    )


def _tokens(directory: Path) -> dict[Identity, str]:
    """The identities' tokens, made at the first start; the API server reads them as a CSV file."""
    path = directory / "tokens.json"
    earlier: dict[str, str] = json.loads(path.read_text()) if path.exists() else {}
    tokens: dict[Identity, str] = {
        name: earlier.get(name) or secrets.token_urlsafe(32) for name in IDENTITIES
    }
    _write_private(path, json.dumps(tokens))
    lines = [f'{tokens[name]},{name},{name},"{",".join(groups)}"' for name, groups in IDENTITIES.items()]
    _write_private(directory / "tokens.csv", "\n".join(lines) + "\n")
    return tokens


def _start_etcd(
    supervisor: Supervisor, plane: Plane, binaries: Binaries, *, port: int, peer_port: int
) -> None:
    client, peer = f"http://{LOOPBACK}:{port}", f"http://{LOOPBACK}:{peer_port}"
    argv = [
        str(binaries.controlplane), "etcd",
        f"--data-dir={plane.directory / 'etcd'}",
        f"--listen-client-urls={client}", f"--advertise-client-urls={client}",
        f"--listen-peer-urls={peer}", f"--initial-advertise-peer-urls={peer}",
        f"--initial-cluster=default={peer}",
        *(() if plane.lasting else ("--unsafe-no-fsync",)), "--log-level=warn",
        "--quota-backend-bytes=4294967296", "--auto-compaction-retention=10m",
    ]  # fmt: skip
    child = supervisor.start(Command(name="etcd", argv=argv))
    supervisor.wait_ready(child, http_probe(f"{client}/health"), seconds=READY_SECONDS)


def _start_api_server(
    supervisor: Supervisor, plane: Plane, binaries: Binaries, *, port: int, etcd_port: int
) -> None:
    key = plane.directory / "service-account.key"
    if not key.exists():
        subprocess.run([binaries.controlplane, "service-account-key", key], check=True, timeout=60)
    argv = [
        str(binaries.controlplane), "kube-apiserver",
        f"--etcd-servers=http://{LOOPBACK}:{etcd_port}",
        f"--bind-address={LOOPBACK}", f"--advertise-address={LOOPBACK}", f"--secure-port={port}",
        "--endpoint-reconciler-type=none",
        f"--cert-dir={plane.directory / 'certs'}",
        "--service-account-issuer=https://kubernetes.default.svc",
        f"--service-account-key-file={key}", f"--service-account-signing-key-file={key}",
        "--service-cluster-ip-range=10.96.0.0/12",
        f"--token-auth-file={plane.directory / 'tokens.csv'}",
        f"--audit-policy-file={_audit_policy(plane)}", f"--audit-log-path={plane.audit_log}",
        "--authorization-mode=RBAC", "--anonymous-auth=false", "--allow-privileged=true",
        "--disable-admission-plugins=TaintNodesByCondition",
        f"--feature-gates={plane.feature_gates}",
        f"--runtime-config={plane.runtime_config}",
        "--shutdown-watch-termination-grace-period=1s",
        "--profiling=false",
    ]  # fmt: skip
    child = supervisor.start(Command(name="kube-apiserver", argv=argv, stop_seconds=20))
    supervisor.wait_ready(child, _api_probe(plane), seconds=READY_SECONDS)


def _audit_policy(plane: Plane) -> Path:
    """Log the requests of accounts in one namespace; of all others nothing, so it costs nothing."""
    rules = [
        {
            "level": "Metadata",
            "userGroups": [f"system:serviceaccounts:{AUDITED}"],
            "omitStages": ["RequestReceived"],
        },
        {"level": "None"},
    ]
    path = plane.directory / "audit-policy.yaml"
    content = {"apiVersion": "audit.k8s.io/v1", "kind": "Policy", "rules": rules}
    _write_private(path, yaml.safe_dump(content))
    return path


def _scheduler(plane: Plane, binaries: Binaries) -> Command:
    config = plane.directory / "scheduler.yaml"
    content = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "leaderElection": {"leaderElect": False},
        "clientConnection": {"kubeconfig": str(plane.kubeconfig("scheduler")), "qps": 1000, "burst": 2000},
    }
    _write_private(config, yaml.safe_dump(content))
    argv = [
        str(binaries.controlplane), "kube-scheduler",
        f"--config={config}", f"--feature-gates={plane.feature_gates}", "--secure-port=0",
    ]  # fmt: skip
    return Command(name="kube-scheduler", argv=argv)


def _controller_manager(plane: Plane, binaries: Binaries, *, workloads: bool) -> Command:
    controllers = [f"--controllers={CONTROLLERS}"]
    if workloads:
        controllers = [
            f"--controllers={CONTROLLERS},{WORKLOAD_CONTROLLERS}",
            f"--root-ca-file={plane.ca_file}",
        ]
    argv = [
        str(binaries.controlplane), "kube-controller-manager",
        f"--kubeconfig={plane.kubeconfig('controller-manager')}",
        *controllers, f"--feature-gates={plane.feature_gates}",
        "--kube-api-qps=500", "--kube-api-burst=1000",
        f"--node-monitor-grace-period={NODE_GRACE_SECONDS}s",
        "--node-eviction-rate=10", "--secondary-node-eviction-rate=10",
        "--leader-elect=false", "--secure-port=0",
    ]  # fmt: skip
    return Command(name="kube-controller-manager", argv=argv)


def _start_kwok(supervisor: Supervisor, plane: Plane, binaries: Binaries, *, port: int) -> None:
    config = plane.directory / "kwok.yaml"
    log = plane.directory / "pod.log"
    log.write_text(
        "2026-01-01T00:00:00.000000000Z stdout F a pod of the local cluster: kwok plays its kubelet\n"
    )
    logs = {
        "apiVersion": "kwok.x-k8s.io/v1alpha1",
        "kind": "ClusterLogs",
        "metadata": {"name": "all"},
        "spec": {"logs": [{"logsFile": str(log)}]},
    }
    commands = {
        "apiVersion": "kwok.x-k8s.io/v1alpha1",
        "kind": "ClusterExec",
        "metadata": {"name": "all"},
        "spec": {"execs": [{"local": {"workDir": str(plane.directory)}}]},
    }
    forwards = {
        "apiVersion": "kwok.x-k8s.io/v1alpha1",
        "kind": "ClusterPortForward",
        "metadata": {"name": "all"},
        "spec": {"forwards": [{"ports": [ECHO_PORT], "command": ["/bin/cat"]}]},
    }
    objects = yaml.safe_dump_all([logs, commands, forwards])
    _write_private(config, f"{STAGES.read_text()}---\n{objects}")
    certs = plane.directory / "certs"
    argv = [
        str(binaries.kwok),
        f"--kubeconfig={plane.kubeconfig('kwok')}", f"--config={config}",
        "--manage-all-nodes=false", f"--manage-nodes-with-label-selector=!{KUBELET_LABEL}",
        f"--node-lease-duration-seconds={LEASE_SECONDS}",
        f"--server-address={LOOPBACK}:{port}", f"--node-ip={LOOPBACK}", f"--node-port={port}",
        f"--tls-cert-file={certs / 'apiserver.crt'}", f"--tls-private-key-file={certs / 'apiserver.key'}",
    ]  # fmt: skip
    drop_leases(plane)
    child = supervisor.start(Command(name=KWOK, argv=argv, env={"HOME": str(plane.directory)}))
    probe = http_probe(f"https://{LOOPBACK}:{port}/healthz", ca_file=plane.ca_file)
    supervisor.wait_ready(child, probe, seconds=READY_SECONDS)


def restart_kwok(supervisor: Supervisor, plane: Plane) -> None:
    """Start kwok again; its nodes and pods are as before, and it renews the leases of all nodes.

    Why it may stop: ``lease_watch``.
    """
    supervisor.kill(KWOK)
    drop_leases(plane)
    supervisor.restart(KWOK)


def drop_leases(plane: Plane) -> None:
    """Drop the leases of a kwok before the next, which would wait for their end."""
    with closing(Api(plane.access(), seconds=LEASE_ANSWER_SECONDS)) as api:
        api.call("DELETE", LEASES)


def unrenewed_leases(api: Api, *, seconds: float) -> int:
    """How many leases of nodes were not renewed for ``seconds``; those of stopped kubelets count too."""
    renewed_before = datetime.now(UTC) - timedelta(seconds=seconds)
    return sum(
        datetime.fromisoformat(lease["spec"]["renewTime"]) < renewed_before for lease in api.list(LEASES)[0]
    )


def _wait_for_service_accounts(supervisor: Supervisor, api: Api) -> None:
    """The controller manager has no port here; its first work shows that it runs."""
    path = "/api/v1/namespaces/default/serviceaccounts/default"
    child = supervisor.find("kube-controller-manager")
    supervisor.wait_ready(
        child,
        lambda: None if api.find(path) else "no default service account yet",
        seconds=READY_SECONDS,
    )


def _write_kubeconfigs(plane: Plane) -> None:
    # kwok and kubectl resolve a relative path against the kubeconfig, the product may not: absolute
    cluster = {"server": plane.server, "certificate-authority": str(plane.ca_file.resolve())}
    for name, token in plane.tokens.items():
        content = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "local", "cluster": cluster}],
            "users": [{"name": name, "user": {"token": token}}],
            "contexts": [{"name": "local", "context": {"cluster": "local", "user": name}}],
            "current-context": "local",
        }
        _write_private(plane.kubeconfig(name), yaml.safe_dump(content))


def _write_private(path: Path, content: str) -> None:
    path.touch(mode=0o600)
    path.write_text(content)


def http_probe(url: str, *, ca_file: Path | None = None) -> Callable[[], str | None]:
    """A probe for ``Supervisor.wait_ready`` that asks a URL for status 200."""
    pool = urllib3.PoolManager(ca_certs=str(ca_file) if ca_file else None)

    def probe() -> str | None:
        try:
            answer = pool.request("GET", url, timeout=2, retries=False)
        except urllib3.exceptions.HTTPError as error:
            return str(error)
        return None if answer.status == 200 else f"{url} answers {answer.status}"

    return probe


def _api_probe(plane: Plane) -> Callable[[], str | None]:
    """Ready when /readyz says so; the certificate that the client needs is written by the server."""

    def probe() -> str | None:
        if not plane.ca_file.exists():
            return "no serving certificate yet"
        try:
            Api(plane.access()).text("/readyz")
        except (ApiError, urllib3.exceptions.HTTPError) as error:
            return str(error)
        return None

    return probe


def is_established(definition: dict[str, Any]) -> bool:
    """Whether the server serves a kind; before its first look at the definition `conditions` is null."""
    conditions = definition.get("status", {}).get("conditions") or ()
    return any(
        condition["type"] == "Established" and condition["status"] == "True" for condition in conditions
    )


def _is_served(api: Api, name: str) -> bool:
    return is_established(api.get(f"{DEFINITIONS}/{name}"))


def _listed(api: Api, definition: dict[str, Any]) -> bool:
    """Whether objects of the kind can be listed: an established one may still answer 429 for a while."""
    spec = definition["spec"]
    (version,) = [version["name"] for version in spec["versions"] if version["storage"]]
    try:
        api.list(f"/apis/{spec['group']}/{version}/{spec['names']['plural']}")
    except ApiError as error:
        if error.code in {404, 429, 503}:
            return False
        raise
    return True


def _wait(condition: Callable[[], bool], *, state: str) -> None:
    deadline = time.monotonic() + READY_SECONDS
    while not condition():
        if time.monotonic() > deadline:
            raise TimeoutError(f"waited {READY_SECONDS} s in vain for {state}")
        time.sleep(0.02)
