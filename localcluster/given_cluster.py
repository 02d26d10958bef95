"""A cluster of the caller's own, named by CLUSTER_KUBECONFIG, as backend ``default``.

Its namespace is created if it is missing; nothing else is touched, and no pool is made. Credentials
of any kind that a kubeconfig can hold are the ``kubernetes`` package's business.
"""

from typing import Any

from kubernetes import client, config

from localcluster import stack
from localcluster.rest import Rest

NAME = "default"
SECONDS = (5, 30)  # to connect, to answer


def register(running: stack.Running, given: stack.Given) -> None:
    """Create the namespace and register the cluster over REST."""
    _ensure_namespace(str(running.kubeconfig), given.backend_namespace)
    document = {
        "description": f"the cluster of {running.kubeconfig}",
        "kubeconfig": str(running.kubeconfig),
        "k8s_namespace": given.backend_namespace,
        "scheduler_settings": {"scheduler_type": given.backend_scheduler},
    }
    rest = Rest(api_url=running.api_url, token=running.token)
    rest.put(f"/api/configs/backend/{NAME}", {"configs": document})


def _ensure_namespace(kubeconfig: str, name: str) -> None:
    settings = client.Configuration()
    config.load_kube_config(kubeconfig, client_configuration=settings)
    with client.ApiClient(settings) as connection:
        core: Any = client.CoreV1Api(connection)
        try:
            core.create_namespace({"metadata": {"name": name}}, _request_timeout=SECONDS)
        except client.ApiException as error:
            if error.status != 409:  # it is there already
                raise
