"""NVIDIA's ComputeDomain, its cliques, and the device classes behind its claims."""

from localcluster.crds.schema import Schema, definition, integer, many, one_of, record, text

DRIVER = "compute-domain.nvidia.com"
CHANNEL_CLASS = "compute-domain-default-channel.nvidia.com"
DAEMON_CLASS = "compute-domain-daemon.nvidia.com"


def definitions() -> list[Schema]:
    return [_compute_domain(), _clique()]


def device_classes() -> list[Schema]:
    """A pod's claim takes channel 0 of its node, a daemon's claim the daemon device."""
    return [
        _device_class(CHANNEL_CLASS, kind="channel", more=f" && device.attributes['{DRIVER}'].id == 0"),
        _device_class(DAEMON_CLASS, kind="daemon", more=""),
    ]


def _compute_domain() -> Schema:
    template = record({"name": text()}, required=["name"])
    channel = record(
        {"resourceClaimTemplate": template, "allocationMode": one_of("All", "Single", default="Single")},
        required=["resourceClaimTemplate"],
    )
    immutable = [{"rule": "self == oldSelf", "message": "A computeDomain.spec is immutable"}]
    spec = record(
        {"numNodes": integer(minimum=0, default=0), "channel": channel},
        required=["channel"],
        **{"x-kubernetes-validations": immutable},
    )
    node = {
        "name": text(),
        "ipAddress": text(),
        "cliqueID": text(),
        "index": integer(),
        "status": _readiness(),
    }
    nodes = many(
        record(node, required=["cliqueID", "ipAddress", "name"]),
        **{"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"]},
    )
    status = record({"status": _readiness(), "nodes": nodes}, required=["status"])
    return definition(
        group="resource.nvidia.com",
        kind="ComputeDomain",
        plural="computedomains",
        version="v1beta1",
        namespaced=True,
        fields={"spec": spec, "status": status},
    )


def _clique() -> Schema:
    daemon = {
        "nodeName": text(),
        "ipAddress": text(),
        "cliqueID": text(),
        "index": integer(),
        "status": _readiness(),
    }
    daemons = many(
        record(daemon, required=["cliqueID", "ipAddress", "nodeName"]),
        **{"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["nodeName"]},
    )
    return definition(
        group="resource.nvidia.com",
        kind="ComputeDomainClique",
        plural="computedomaincliques",
        version="v1beta1",
        namespaced=True,
        fields={"daemons": daemons},
        status=False,
    )


def _readiness() -> Schema:
    return one_of("Ready", "NotReady", default="NotReady")


def _device_class(name: str, *, kind: str, more: str) -> Schema:
    expression = f"device.driver == '{DRIVER}' && device.attributes['{DRIVER}'].type == '{kind}'{more}"
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "DeviceClass",
        "metadata": {"name": name},
        "spec": {"selectors": [{"cel": {"expression": expression}}]},
    }
