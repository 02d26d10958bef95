"""Reading rendered objects."""

WORKLOADS = ("Deployment", "StatefulSet", "Job")
PROCESSES = ("web", "worker", "beat", "observer")
OURS = (*PROCESSES, "migrate", "administrator", "removal")


def of_kind(objects, *kinds):
    return [obj for obj in objects if obj["kind"] in kinds]


def path_of(api, body):
    """The collection of an object's kind on this API server."""
    version = body["apiVersion"]
    root = f"/apis/{version}" if "/" in version else f"/api/{version}"
    (resource,) = [
        resource
        for resource in api.get(root)["resources"]
        if resource["kind"] == body["kind"] and "/" not in resource["name"]
    ]
    scope = f"/namespaces/{body['metadata']['namespace']}" if resource["namespaced"] else ""
    return f"{root}{scope}/{resource['name']}"


def named(objects, kind, name):
    (only,) = [obj for obj in of_kind(objects, kind) if obj["metadata"]["name"] == name]
    return only


def pod_of(workload):
    return workload["spec"] if workload["kind"] == "Pod" else workload["spec"]["template"]["spec"]


def container_of(workload):
    (container,) = pod_of(workload)["containers"]
    return container


def environment_of(workload):
    """{name: value}, or (Secret, key) where the value is in one."""
    result = {}
    for variable in container_of(workload).get("env", []):
        reference = variable.get("valueFrom", {}).get("secretKeyRef")
        own = (reference["name"], reference["key"]) if reference else variable.get("value")
        assert variable["name"] not in result, f"{variable['name']} twice"
        result[variable["name"]] = own
    return result


def component(workload):
    return workload["metadata"]["labels"]["app.kubernetes.io/component"]


def ours(objects):
    return {
        component(workload): workload
        for workload in of_kind(objects, *WORKLOADS)
        if component(workload) in OURS
    }
