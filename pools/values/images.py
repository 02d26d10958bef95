"""References of images as container runtimes read them: ``[registry/]path[:tag][@digest]``.

The grammar is that of github.com/distribution/reference v0.6 (``regexp.go``, ``normalize.go``), by which a
kubelet decides whether a name is one at all. A name that is none never becomes one, and its pod holds its
GPUs while its container waits, so it is refused where it is written. Stricter in one point: a registry has a
``.``, a ``:`` or is ``localhost``, as in versions before v0.5, so ``NVIDIA/pytorch`` is no registry's.
"""

import re
from collections.abc import Iterator

ACCEPTED = ("nvcr.io/nvidia/pytorch:25.10-py3", "localhost:5000/team/train@sha256:...")
MAX_NAME = 255
_QUOTED = 63

_LABEL = r"[a-zA-Z0-9](?:[a-zA-Z0-9-]*[a-zA-Z0-9])?"
_REGISTRY = re.compile(rf"(?:{_LABEL}(?:\.{_LABEL})*|\[[a-fA-F0-9:]+\])(?::[0-9]+)?")
_COMPONENT = re.compile(r"[a-z0-9]+(?:(?:\.|__|_|-+)[a-z0-9]+)*")
_TAG = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}")
_DIGEST = re.compile(r"sha256:[a-f0-9]{64}|sha384:[a-f0-9]{96}|sha512:[a-f0-9]{128}")
_IDENTIFIER = re.compile(r"[a-f0-9]{64}")


def image_fault(text: str) -> str | None:
    """The fault of an image's reference, checked without its registry; None if it is accepted."""
    problems = list(_problems(text))
    if not problems:
        return None
    return (
        f"{_quoted(text)} is not an image: {'; '.join(problems)}. Write [registry/]path[:tag][@digest], for "
        f"example {ACCEPTED[0]}."
    )


def _problems(text: str) -> Iterator[str]:
    """Every part that is not of the grammar, as a clause."""
    named, at, digest = text.partition("@")
    registry, path = _split(named)
    path, colon, tag = path.partition(":")
    if registry and not _REGISTRY.fullmatch(registry):
        yield f"{_quoted(registry)} is not the address of a registry"
    if not path:
        yield "it has no path"
    elif path != path.lower():
        yield f"its path {_quoted(path)} must be in lower case"
    elif not all(_COMPONENT.fullmatch(component) for component in path.split("/")):
        yield (
            f'each component of its path {_quoted(path)} must have letters and digits, with ".", "_", "__" '
            'or "-" between'
        )
    if len(registry) + len(path) > MAX_NAME:
        yield f"its name has more than {MAX_NAME} characters"
    if not registry and _IDENTIFIER.fullmatch(named):
        yield "64 hexadecimal digits are an image's id, not its name"
    if colon and not _TAG.fullmatch(tag):
        yield f'its tag {_quoted(tag)} must have 1 to 128 letters, digits, "_", "." and "-"'
    if at and not _DIGEST.fullmatch(digest):
        yield f"its digest {_quoted(digest)} must be sha256: and 64 hexadecimal digits, or sha384: or sha512:"


def _split(named: str) -> tuple[str, str]:
    """Registry and the rest; the registry is empty where the runtime's default is meant."""
    first, slash, rest = named.partition("/")
    if slash and (first == "localhost" or "." in first or ":" in first):
        return first, rest
    return "", named


def _quoted(text: str) -> str:
    return f'"{text}"' if len(text) <= _QUOTED else f'"{text[: _QUOTED - 3]}..."'
