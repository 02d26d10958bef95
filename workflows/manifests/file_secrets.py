"""Files of tasks, kept in Secrets of the group and mounted one by one.

A file may hold a password, hence Secrets and not ConfigMaps. Tasks of one resource spec mostly share
their files: contents are stored once, under a hash of them. A Secret holds at most 1 MiB, and an object is
a third larger in JSON, so contents are spread over several.
"""

import base64
import hashlib
from dataclasses import dataclass, field

from scheduling import names
from scheduling.backends.base import Manifest
from workflows.manifests.tokens import Tokens
from workflows.values.placement import File, GroupValues

ROOM = 700 * 1024  # bytes of contents in one Secret; 1 MiB as an object


@dataclass(slots=True)
class FileStore:
    """Where each file of a group is kept; fill it with ``put`` and read ``secrets`` afterwards."""

    values: GroupValues
    tokens: Tokens
    labels: dict[str, str]
    secrets: list[Manifest] = field(default_factory=list)
    _places: dict[str, tuple[str, str]] = field(default_factory=dict)
    _known: dict[File, tuple[str, str]] = field(default_factory=dict)
    _room: int = 0

    def put(self, file: File) -> tuple[str, str]:
        """Keep a file's contents; returns the Secret's name and the key in it."""
        if file not in self._known:
            self._known[file] = self._put(file)
        return self._known[file]

    def _put(self, file: File) -> tuple[str, str]:
        content = _decoded(file) if file.base64 else self.tokens.fill(file.contents).encode()
        key = hashlib.sha256(content).hexdigest()[:40]
        if key not in self._places:
            self._places[key] = (self._secret_for(len(content)), key)
            self.secrets[-1]["data"][key] = base64.b64encode(content).decode()
        return self._places[key]

    def _secret_for(self, size: int) -> str:
        if not self.secrets or size > self._room:
            self.secrets.append(self._new_secret(len(self.secrets)))
            self._room = ROOM
        self._room -= size
        name: str = self.secrets[-1]["metadata"]["name"]
        return name

    def _new_secret(self, number: int) -> Manifest:
        return {
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": {
                "name": names.secret(self.values.uuid, f"files-{number}"),
                "namespace": self.values.placement.namespace,
                "labels": self.labels,
            },
            "type": "Opaque",
            "data": {},
        }


def _decoded(file: File) -> bytes:
    """Contents given in base64. Raises ValueError for what is none; submission refuses that before."""
    return base64.b64decode(file.contents, validate=False)
