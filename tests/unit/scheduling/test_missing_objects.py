"""Objects that pods name and that do not exist, read from the texts of Kubernetes 1.37 and KAI."""

import pytest

from scheduling.backends.missing_objects import MissingObject, missing_objects, missing_sentence

POD = 'pods "0123456789abcdef0123456789abcdef-0" is forbidden: '
TEXTS = {
    f"{POD}no PriorityClass with name urgent was found": MissingObject("PriorityClass", "urgent"),
    f'{POD}error looking up service account ml/trainer: serviceaccount "trainer" not found': (
        MissingObject("ServiceAccount", "trainer")
    ),
    f'{POD}pod rejected: RuntimeClass "gvisor" not found': MissingObject("RuntimeClass", "gvisor"),
    '0/4 nodes are available: persistentvolumeclaim "data" not found. not found': (
        MissingObject("PersistentVolumeClaim", "data")
    ),
    'VolumeBinding: persistentvolumeclaim "data" not found.': MissingObject("PersistentVolumeClaim", "data"),
    'failed to fetch PVC from API server: persistentvolumeclaims "data" not found': (
        MissingObject("PersistentVolumeClaim", "data")
    ),
    'PodResourceClaim gpu: failed to create ResourceClaim: resource claim template "gpus": '
    'resourceclaimtemplate.resource.k8s.io "gpus" not found': MissingObject("ResourceClaimTemplate", "gpus"),
    'could not find ResourceClaim "ml/shared-gpu"': MissingObject("ResourceClaim", "shared-gpu"),
    'failed to get resource claim ml/shared-gpu: resourceclaim.resource.k8s.io "shared-gpu" not found': (
        MissingObject("ResourceClaim", "shared-gpu")
    ),
    'secret "token" not found': MissingObject("Secret", "token"),
    'MountVolume.SetUp failed for volume "v" : secret "token" not found': MissingObject("Secret", "token"),
    "couldn't find key user in Secret ml/token": MissingObject("Secret", "token", "user"),
    'configmap "settings" not found': MissingObject("ConfigMap", "settings"),
    'MountVolume.SetUp failed for volume "v" : configmap "settings" not found': (
        MissingObject("ConfigMap", "settings")
    ),
    "couldn't find key user in ConfigMap ml/settings": MissingObject("ConfigMap", "settings", "user"),
    "Missing required configmaps: [settings]": MissingObject("ConfigMap", "settings"),
}


@pytest.mark.parametrize("text", TEXTS)
def test_each_text_names_what_is_missing(text):
    assert missing_objects([text, text]) == (TEXTS[text],)


OTHERS = (
    'pods "x" not found',
    f"{POD}exceeded quota: compute, requested: requests.cpu=4, used: requests.cpu=8, limited: requests.cpu=8",
    'secret "osmo-0123456789abcdef0123456789abcdef-files" not found',
    'resourceclaimtemplate.resource.k8s.io "osmo-0123456789abcdef0123456789abcdef-channel" not found',
    'resourceclaim "0123456789abcdef0123456789abcdef-0-channel-x" not found',
    "0/4 nodes are available: 4 Insufficient cpu.",
    'pod "ml/p": ResourceClaim not created yet',
)


@pytest.mark.parametrize("text", OTHERS)
def test_other_texts_and_the_services_own_objects_name_nothing(text):
    assert missing_objects([text]) == ()


def test_the_sentence_says_where_each_is_missing():
    secret = missing_sentence([MissingObject("Secret", "token")], namespace="ml")
    assert secret == 'Its pods name Secret "token", which does not exist in namespace "ml".'
    key = missing_sentence([MissingObject("ConfigMap", "settings", "user")], namespace="ml")
    assert key == 'Its pods name key "user" of ConfigMap "settings", which does not exist in namespace "ml".'
    wide = missing_sentence([MissingObject("RuntimeClass", "gvisor")], namespace="ml")
    assert wide == 'Its pods name RuntimeClass "gvisor", which does not exist in the cluster.'
    two = missing_sentence([MissingObject("Secret", "a"), MissingObject("Secret", "b")], namespace="ml")
    assert two == 'Its pods name Secret "a" and Secret "b", which do not exist in namespace "ml".'
