"""What a real API server says of a pod that names what does not exist, and what is read from it."""

import pytest

from cluster.errors import ClusterError
from cluster.kinds import POD
from scheduling.backends.missing_objects import MissingObject, missing_objects

REFUSED = {
    "priorityClassName": MissingObject("PriorityClass", "no-such"),
    "serviceAccountName": MissingObject("ServiceAccount", "no-such"),
    "runtimeClassName": MissingObject("RuntimeClass", "no-such"),
}


@pytest.mark.parametrize("field", REFUSED)
def test_the_object_is_read_from_the_refusal(real, namespace, field):
    containers = [{"name": "a", "image": "registry.k8s.io/pause:3.9"}]
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "p", "namespace": namespace},
        "spec": {"containers": containers, field: "no-such"},
    }
    with pytest.raises(ClusterError) as error:
        real.create(POD, pod, dry_run=True)
    assert missing_objects([error.value.message]) == (REFUSED[field],)
