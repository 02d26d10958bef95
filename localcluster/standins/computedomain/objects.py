"""The objects the controller makes, as JSON. All carry the domain's uid as label, and the finalizer."""

from typing import Any

from localcluster.standins.computedomain.values import (
    DRIVER,
    DRIVER_NAMESPACE,
    FINALIZER,
    LABEL,
    TARGET_LABEL,
    Domain,
    Machine,
)

Json = dict[str, Any]

CHANNEL_CLASS = "compute-domain-default-channel.nvidia.com"
DAEMON_CLASS = "compute-domain-daemon.nvidia.com"
RESOURCES = "/apis/resource.k8s.io/v1"


def daemon_name(uid: str) -> str:
    """The name of a domain's daemon template and DaemonSet."""
    return f"computedomain-daemon-{uid}"


def workload_template(domain: Domain) -> Json:
    """The template pods of the domain's namespace claim their channel from."""
    parameters = {"kind": "ComputeDomainChannelConfig", "allocationMode": domain.allocation_mode}
    return _template(
        domain,
        namespace=domain.namespace,
        name=domain.template,
        target="Workload",
        request="channel",
        device_class=CHANNEL_CLASS,
        parameters=parameters,
    )


def daemon_template(domain: Domain) -> Json:
    """The template the domain's daemons claim their device from."""
    return _template(
        domain,
        namespace=DRIVER_NAMESPACE,
        name=daemon_name(domain.uid),
        target="Daemon",
        request="daemon",
        device_class=DAEMON_CLASS,
        parameters={"kind": "ComputeDomainDaemonConfig"},
    )


def _template(
    domain: Domain,
    *,
    namespace: str,
    name: str,
    target: str,
    request: str,
    device_class: str,
    parameters: Json,
) -> Json:
    config = {
        "requests": [request],
        "opaque": {
            "driver": DRIVER,
            "parameters": {
                "apiVersion": "resource.nvidia.com/v1beta1",
                "domainID": domain.uid,
                **parameters,
            },
        },
    }
    devices = {
        "requests": [{"name": request, "exactly": {"deviceClassName": device_class}}],
        "config": [config],
    }
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaimTemplate",
        "metadata": {
            "namespace": namespace,
            "name": name,
            "labels": {LABEL: domain.uid, TARGET_LABEL: target},
            "finalizers": [FINALIZER],
        },
        "spec": {"spec": {"devices": devices}},
    }


def daemon_set(domain: Domain) -> Json:
    """The daemons of a domain: on the nodes that carry its label, whatever their taints."""
    labels = {LABEL: domain.uid}
    effects = ("NoSchedule", "NoExecute", "PreferNoSchedule")
    pod = {
        "nodeSelector": labels,
        "tolerations": [{"operator": "Exists", "effect": effect} for effect in effects],
        "containers": [
            {
                "name": "compute-domain-daemon",
                "image": "compute-domain-daemon",
                "resources": {"claims": [{"name": "compute-domain-daemon"}]},
            }
        ],
        "resourceClaims": [
            {"name": "compute-domain-daemon", "resourceClaimTemplateName": daemon_name(domain.uid)}
        ],
    }
    return {
        "apiVersion": "apps/v1",
        "kind": "DaemonSet",
        "metadata": {
            "namespace": DRIVER_NAMESPACE,
            "name": daemon_name(domain.uid),
            "labels": labels,
            "finalizers": [FINALIZER],
        },
        "spec": {
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": pod},
        },
    }


def slice_name(machine: Machine) -> str:
    """The name of a node's slice."""
    return f"{machine.name}-{DRIVER}"


def resource_slice(machine: Machine) -> Json:
    """The devices of one node: a single channel, and the daemon's."""
    channel = {"type": {"string": "channel"}, "id": {"int": 0}}
    daemon = {"type": {"string": "daemon"}, "id": {"int": 0}}
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceSlice",
        "metadata": {
            "name": slice_name(machine),
            "ownerReferences": [
                {
                    "apiVersion": "v1",
                    "kind": "Node",
                    "name": machine.name,
                    "uid": machine.uid,
                    "controller": True,
                }
            ],
        },
        "spec": {
            "driver": DRIVER,
            "nodeName": machine.name,
            "pool": {"name": machine.name, "generation": 1, "resourceSliceCount": 1},
            "devices": [
                {"name": "channel-0", "attributes": channel},
                {"name": "daemon-0", "attributes": daemon},
            ],
        },
    }


def device_class(name: str) -> Json:
    """One of the two DeviceClasses the driver's chart installs."""
    kind = "channel" if name == CHANNEL_CLASS else "daemon"
    expression = f"device.driver == '{DRIVER}' && device.attributes['{DRIVER}'].type == '{kind}'"
    if kind == "channel":
        expression += f" && device.attributes['{DRIVER}'].id == 0"
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "DeviceClass",
        "metadata": {"name": name},
        "spec": {"selectors": [{"cel": {"expression": expression}}]},
    }
