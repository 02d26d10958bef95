"""A cluster of the caller's own, named by CLUSTER_KUBECONFIG, as backend ``default``.

Its namespace is created if it is missing; nothing else is touched, and no pool is made. Credentials
of any kind that a kubeconfig can hold are the ``kubernetes`` package's business. A file that cannot be
used is refused before anything starts; a cluster that does not answer, or does not let us make the
namespace, is registered all the same: the service says what is missing and goes on once it is there.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import urllib3
import yaml
from kubernetes import client, config

from localcluster import stack
from localcluster.rest import Rest

NAME = "default"
SECONDS = (5, 30)  # to connect, to answer


def check(kubeconfig: Path) -> None:
    """Raise GivenUnusable if the file is not there or is no kubeconfig; no call is made."""
    _settings(kubeconfig)


def register(running: stack.Running, options: stack.Options, *, progress: Callable[[str], None]) -> None:
    """Create the namespace and register the cluster over REST."""
    if trouble := ensure_namespace(running.kubeconfig, options.backend_namespace):
        progress(f"namespace {options.backend_namespace} could not be made: {trouble}")
    client = Rest(api_url=running.api_url, token=running.token)
    backends = {backend["name"] for backend in client.get("/api/configs/backend")["backends"]}
    description = {} if NAME in backends else {"description": f"the cluster of {running.kubeconfig}"}
    document = {
        **description,
        "kubeconfig": str(running.kubeconfig),
        "k8s_namespace": options.backend_namespace,
        "scheduler_settings": {"scheduler_type": options.backend_scheduler},
    }
    client.post(f"/api/configs/backend/{NAME}", {"configs": document})  # its other fields stay


def ensure_namespace(kubeconfig: Path, name: str) -> str:
    """Create a namespace unless it is there; why that could not be done, or nothing."""
    with client.ApiClient(_settings(kubeconfig)) as connection:
        core: Any = client.CoreV1Api(connection)
        try:
            core.create_namespace({"metadata": {"name": name}}, _request_timeout=SECONDS)
        except client.ApiException as error:
            exists = error.status == 409
            return "" if exists else f"the cluster answered {error.status} {error.reason}"
        except (urllib3.exceptions.HTTPError, OSError) as error:
            return f"the cluster does not answer ({_line(error)})"
    return ""


def _settings(kubeconfig: Path) -> client.Configuration:
    settings = client.Configuration()
    settings.retries = False  # it is said at once that a cluster does not answer
    try:
        config.load_kube_config(str(kubeconfig), client_configuration=settings)
    except (config.ConfigException, OSError, yaml.YAMLError, KeyError, TypeError, ValueError) as error:
        raise stack.GivenUnusable(f"CLUSTER_KUBECONFIG {kubeconfig}: {_line(error)}") from error
    return settings


def _line(error: Exception) -> str:
    return " ".join(str(error).split())
