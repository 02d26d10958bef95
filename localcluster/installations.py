"""What the installers of KAI and Kueue leave in a cluster besides kinds, as far as somebody reads it there.

Here both run as processes of their own. These objects say with which flags and configuration, and with which
rights KAI's binder would run; no controller of this cluster makes pods of them. Shapes: KAI v0.13
``pkg/apis/kai/v1/schedulingshard_types.go`` and ``pkg/operator/operands/scheduler``, Kueue v0.19
``config/components/manager``.
"""

from typing import Any

from localcluster import kueue
from localcluster.api import Api
from localcluster.controlplane import MANAGER, Plane, create_namespace, install
from localcluster.crds.schema import record, text
from localcluster.standins.commands import EVICTION_FLAG

KAI_NAMESPACE = "kai-scheduler"
KUEUE_NAMESPACE = "kueue-system"
SHARDS: dict[str, Any] = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": "schedulingshards.kai.scheduler"},
    "spec": {
        "group": "kai.scheduler",
        "scope": "Cluster",
        "names": {"kind": "SchedulingShard", "plural": "schedulingshards", "singular": "schedulingshard"},
        "versions": [
            {
                "name": "v1",
                "served": True,
                "storage": True,
                "schema": {
                    "openAPIV3Schema": record({"spec": record({"partitionLabelValue": text()})}),
                },
            }
        ],
    },
}
SHARD: dict[str, Any] = {
    "apiVersion": "kai.scheduler/v1",
    "kind": "SchedulingShard",
    "metadata": {"name": "default"},
    "spec": {"partitionLabelValue": ""},
}
SCHEDULER: dict[str, Any] = {
    "apiVersion": "apps/v1",
    "kind": "Deployment",
    "metadata": {"name": "kai-scheduler-default", "namespace": KAI_NAMESPACE},
    "spec": {
        "selector": {"matchLabels": {"app": "kai-scheduler-default"}},
        "template": {
            "metadata": {"labels": {"app": "kai-scheduler-default"}},
            "spec": {
                "containers": [
                    {
                        "name": "scheduler",
                        "image": "scheduler",
                        "args": ["--scheduler-name=kai-scheduler", f"{EVICTION_FLAG}=true"],
                    }
                ]
            },
        },
    },
}
BINDER: dict[str, Any] = {
    "apiVersion": "rbac.authorization.k8s.io/v1",
    "kind": "ClusterRole",
    "metadata": {"name": "kai-binder"},
    "rules": [
        {
            "apiGroups": ["resource.k8s.io"],
            "resources": ["resourceclaims/binding"],
            "verbs": ["update", "patch"],
        }
    ],
}


def apply(api: Api, plane: Plane) -> None:
    """Write them, or bring them in line."""
    for namespace in (KAI_NAMESPACE, KUEUE_NAMESPACE):
        if api.find(f"/api/v1/namespaces/{namespace}") is None:
            create_namespace(api, namespace)
    install(api, [SHARDS])
    objects = {
        "/apis/kai.scheduler/v1/schedulingshards": SHARD,
        f"/apis/apps/v1/namespaces/{KAI_NAMESPACE}/deployments": SCHEDULER,
        "/apis/rbac.authorization.k8s.io/v1/clusterroles": BINDER,
        f"/api/v1/namespaces/{KUEUE_NAMESPACE}/configmaps": _kueue_configuration(plane),
    }
    for place, body in objects.items():
        api.apply(f"{place}/{body['metadata']['name']}", body, manager=MANAGER)


def _kueue_configuration(plane: Plane) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "kueue-manager-config"},
        "data": {"controller_manager_config.yaml": kueue.configuration_file(plane).read_text()},
    }
