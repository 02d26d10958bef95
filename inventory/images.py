"""The images that an installation pulls, and their digests where skopeo can ask the registries.

The names are read where they are used: the chart, the compose file and the Dockerfile. A digest is a fact of
a registry, so none is stored here; who mirrors images asks for it at that time.
"""

import re
import shutil
import subprocess
from dataclasses import dataclass

import yaml

from inventory.packages import ROOT
from web.release import VERSION

SKOPEO_SECONDS = 60


@dataclass(frozen=True, slots=True)
class Image:
    """An image by its reference, and all that needs it."""

    reference: str
    use: str


def images() -> list[Image]:
    """All images, first the one that every installation needs."""
    values = yaml.safe_load((ROOT / "deploy/helm/osmo-topology/values.yaml").read_text())
    quick = values["quickstart"]
    services = yaml.safe_load((ROOT / "docker-compose.yml").read_text())["services"]
    bases = re.findall(r"^FROM (\S+)", (ROOT / "Dockerfile").read_text(), re.MULTILINE)
    uses = [
        Image(f"{values['image']['repository']}:{values['image']['tag'] or VERSION}", "every installation"),
        *(Image(quick[name], "quickstart.enabled") for name in sorted(quick) if name.endswith("Image")),
        *(
            Image(service["image"], "docker-compose.yml")
            for service in services.values()
            if "build" not in service
        ),
        *(Image(base, "building the image") for base in sorted(set(bases))),
    ]
    references = dict.fromkeys(image.reference for image in uses)
    return [Image(name, ", ".join(i.use for i in uses if i.reference == name)) for name in references]


def image_list(*, digests: bool) -> str:
    """One line for each image. Raises LookupError where a digest is wanted and cannot be had."""
    lines = []
    for image in images():
        reference = image.reference
        if digests and image.use != "every installation":  # ours is in the registry that you push it to
            reference = f"{reference.rpartition(':')[0]}@{_digest(reference)}"
        lines.append(f"{reference}  # {image.use}, {image.reference}")
    return "\n".join([*lines, ""])


def _digest(reference: str) -> str:
    program = shutil.which("skopeo")
    if program is None:
        raise LookupError("digests need skopeo, which asks the registries; it is not on the PATH")
    address = f"docker://{_full(reference)}"
    command = [program, "inspect", "--no-tags", "--format", "{{.Digest}}", address]
    ended = subprocess.run(command, capture_output=True, text=True, check=False, timeout=SKOPEO_SECONDS)
    if ended.returncode != 0:
        raise LookupError(f"{reference}: {ended.stderr.strip()}")
    return ended.stdout.strip()


def _full(reference: str) -> str:
    """The reference with the registry that a short one means."""
    first, slash, _ = reference.partition("/")
    if slash and ("." in first or ":" in first):
        return reference
    return f"docker.io/{reference}" if slash else f"docker.io/library/{reference}"
