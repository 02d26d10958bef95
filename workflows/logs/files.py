"""Kept logs as files: one directory for each workflow, readable by the service's account alone.

An object is written beside its place and renamed into it, so any number of processes may write and read at
once. A file that a killed writer leaves behind bears the object's name and goes with it. The directory must
be the same for web and workers; where they do not share one, use a bucket.
"""

import os
import secrets
from pathlib import Path

from workflows.logs.errors import StoreFailed

_TRIES = 3  # a directory may be removed as empty between its making and its first file


class FileStore:
    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def put(self, name: str, content: bytes) -> None:
        path = self._directory / name
        try:
            for attempt in range(_TRIES + 1):
                try:
                    if attempt:  # mostly there is one, and to look takes as long as to write
                        self._directory.mkdir(mode=0o700, parents=True, exist_ok=True)
                        path.parent.mkdir(mode=0o700, exist_ok=True)
                    return self._write(path, content)
                except FileNotFoundError:
                    if attempt == _TRIES:
                        raise
        except OSError as error:
            raise StoreFailed(f"cannot write {name}: {error.strerror}") from error

    def _write(self, path: Path, content: bytes) -> None:
        part = path.with_name(f"{path.name}.{secrets.token_hex(8)}.part")
        try:
            with os.fdopen(os.open(part, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600), "wb") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
            part.replace(path)
        except BaseException:
            part.unlink(missing_ok=True)
            raise

    def get(self, name: str) -> bytes | None:
        try:
            return (self._directory / name).read_bytes()
        except FileNotFoundError:
            return None
        except OSError as error:
            raise StoreFailed(f"cannot read {name}: {error.strerror}") from error

    def remove(self, name: str) -> None:
        path = self._directory / name
        try:
            path.unlink(missing_ok=True)
            for part in path.parent.glob(f"{path.name}.*.part"):
                part.unlink(missing_ok=True)
        except OSError as error:
            raise StoreFailed(f"cannot remove {name}: {error.strerror}") from error
        try:
            path.parent.rmdir()
        except OSError:
            return  # other logs of the workflow are there, or it is gone already
