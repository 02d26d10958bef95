"""Files of tasks: stored in Secrets of the task group and mounted one by one.

A file may contain a password, hence Secrets and not ConfigMaps. Tasks of one group mostly share their files,
so contents are stored once, under their hash. A Secret holds at most 1 MiB, and contents are a third larger
in JSON, so they are spread over several Secrets.

A Secret that exists is not written again, so a value that an earlier release does not put into Secrets has
Secrets of its own: ``purpose`` is in their names.
"""

import base64
import hashlib
from dataclasses import dataclass, field

from scheduling import names
from scheduling.backends.base import Manifest
from workflows.manifests.tokens import Tokens
from workflows.values.placement import File, GroupValues

MAX_CONTENTS = 700 * 1024  # bytes in one Secret; 1 MiB as an object


@dataclass(slots=True)
class FileSecrets:
    """The Secrets with the files of a group; call ``put`` for every file, then read ``secrets``."""

    values: GroupValues
    tokens: Tokens
    labels: dict[str, str]
    purpose: str = "files"
    secrets: list[Manifest] = field(default_factory=list)
    _by_hash: dict[str, tuple[str, str]] = field(default_factory=dict)
    _by_file: dict[File, tuple[str, str]] = field(default_factory=dict)
    _free: int = 0

    def put(self, file: File) -> tuple[str, str]:
        """Store a file's contents; returns the name of the Secret and the key in it. Idempotent."""
        if file not in self._by_file:
            self._by_file[file] = self._put(file)
        return self._by_file[file]

    def _put(self, file: File) -> tuple[str, str]:
        content = _decoded(file) if file.base64 else self.tokens.fill(file.contents).encode()
        key = hashlib.sha256(content).hexdigest()[:40]
        if key not in self._by_hash:
            self._by_hash[key] = (self._secret_for(len(content)), key)
            self.secrets[-1]["data"][key] = base64.b64encode(content).decode()
        return self._by_hash[key]

    def _secret_for(self, size: int) -> str:
        if not self.secrets or size > self._free:
            self.secrets.append(self._new_secret(len(self.secrets)))
            self._free = MAX_CONTENTS
        self._free -= size
        name: str = self.secrets[-1]["metadata"]["name"]
        return name

    def _new_secret(self, number: int) -> Manifest:
        return {
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": {
                "name": names.secret(self.values.uuid, f"{self.purpose}-{number}"),
                "namespace": self.values.placement.terms.namespace,
                "labels": self.labels,
            },
            "type": "Opaque",
            "data": {},
        }


def _decoded(file: File) -> bytes:
    """Decode contents in base64. Raises ValueError for other text, which a submission refuses earlier."""
    return base64.b64decode(file.contents, validate=False)
