"""References of images, as a kubelet reads them."""

import pytest

from pools.pod_templates.rules import template_faults
from pools.values.images import image_fault
from scheduling.errors import format_path

HEX = "0123456789abcdef"

ACCEPTED = [
    "busybox",
    "busybox:1.36",
    "library/busybox",
    "nvcr.io/nvidia/pytorch:25.10-py3",
    "nvcr.io/nvidia/pytorch:25.10_PY3",
    "localhost/train",
    "localhost:5000/train:x",
    "REGISTRY.example.com/train",
    "10.0.0.1:5000/a/b/c",
    "[fd00::1]:5000/train",
    f"busybox@sha256:{HEX * 4}",
    f"ghcr.io/a/b:1@sha512:{HEX * 8}",
    "a__b/c-d---e/f.g_h",
]

REFUSED = {
    "nvcr.io/nvidia/PyTorch:25.10": '"nvidia/PyTorch" must be in lower case',
    "NVIDIA/pytorch": "must be in lower case",
    "": "it has no path",
    "nvcr.io/": "it has no path",
    ":1": "it has no path",
    "a b": '".", "_", "__" or "-" between',
    "busybox ": "between",
    "a//b": "between",
    "a/b/": "between",
    "c/a..b": "between",
    "-a": "between",
    "a___b": "between",
    "https://nvcr.io/nvidia/pytorch": "is not the address of a registry",
    "nv_cr.io/a": "is not the address of a registry",
    "nvcr.io:port/a": "is not the address of a registry",
    "busybox:": "its tag",
    "busybox:-1": "its tag",
    f"busybox:{'x' * 129}": "its tag",
    "busybox:a:b": "its tag",
    "busybox@": "its digest",
    "busybox@sha256:abc": "its digest",
    f"busybox@md5:{HEX * 2}": "its digest",
    f"busybox@sha256:{HEX.upper() * 4}": "its digest",
    HEX * 4: "an image's id",
    "a" * 256: "more than 255",
    "größe": "between",
    "a\n": "between",
}


@pytest.mark.parametrize("text", ACCEPTED)
def test_a_reference_of_the_grammar_is_accepted(text):
    assert image_fault(text) is None


@pytest.mark.parametrize(("text", "want"), REFUSED.items())
def test_a_reference_that_no_runtime_reads_is_refused_with_its_faulty_part(text, want):
    message = image_fault(text)
    assert want in message
    assert "nvcr.io/nvidia/pytorch:25.10-py3" in message
    assert len(message) < 500


def test_every_faulty_part_is_named_at_once():
    message = image_fault("nv_cr.io/A/b:-1@sha256:x")
    for part in ("registry", "lower case", "tag", "digest"):
        assert part in message


def test_images_of_pod_templates_are_checked_unless_a_variable_fills_them():
    spec = {
        "initContainers": [
            {"name": "setup", "image": "Tools:1"},
            {"name": "proxy", "image": "tools:{{USER_CPU}}"},
            {"name": "agent", "image": "tools:1"},
        ],
        "volumes": [{"name": "models", "image": {"reference": "models@x"}}],
    }
    faults = [fault for fault in template_faults({"spec": spec}) if fault.code == "image"]
    assert [format_path(fault.path) for fault in faults] == [
        "spec.initContainers[0].image",
        "spec.volumes[0].image.reference",
    ]
