"""The little of an API server's arithmetic that a cluster in memory needs: selectors, patches, apply.

Pure functions on plain values. Only what the product uses: equality and set selectors, merge patches, and
server-side apply over maps with lists as one value.
"""

import re
from typing import Any

Path = tuple[str, ...]

_SET = re.compile(r"^\s*(\S+)\s+(in|notin)\s+\(([^)]*)\)\s*$")


def labels_match(labels: dict[str, str], selector: str) -> bool:
    return all(_label_matches(labels, term) for term in _terms(selector))


def fields_match(obj: dict[str, Any], selector: str) -> bool:
    for term in _terms(selector):
        unlike = "!=" in term
        path, want = re.split(r"!=|==|=", term, maxsplit=1)
        value: Any = obj
        for step in path.strip().split("."):
            value = value.get(step) if isinstance(value, dict) else None
        if (str(value or "") == want.strip()) is unlike:
            return False
    return True


def _terms(selector: str) -> list[str]:
    return [term for term in re.split(r",(?![^(]*\))", selector) if term.strip()]


def _label_matches(labels: dict[str, str], term: str) -> bool:
    if found := _SET.match(term):
        key, verb, listed = found.groups()
        values = {value.strip() for value in listed.split(",")}
        return (labels.get(key) in values) is (verb == "in")
    if "!=" in term:
        key, value = term.split("!=", 1)
        return labels.get(key.strip()) != value.strip()
    if "=" in term:
        key, value = re.split("==|=", term, maxsplit=1)
        return labels.get(key.strip()) == value.strip()
    term = term.strip()
    return term[1:] not in labels if term.startswith("!") else term in labels


def copy_json(value: Any) -> Any:
    """A copy of a value of JSON, in a third of the time that ``copy.deepcopy`` takes."""
    if isinstance(value, dict):
        return {key: copy_json(entry) for key, entry in value.items()}
    if isinstance(value, list):
        return [copy_json(entry) for entry in value]
    return value


def merge_patch(target: Any, patch: Any) -> Any:
    """RFC 7386."""
    if not isinstance(patch, dict):
        return copy_json(patch)
    merged = dict(target) if isinstance(target, dict) else {}
    for key, value in patch.items():
        if value is None:
            merged.pop(key, None)
        else:
            merged[key] = merge_patch(merged.get(key), value)
    return merged


def leaves(obj: dict[str, Any], under: Path = ()) -> dict[Path, Any]:
    """Every value of an object by its path, maps walked, lists whole."""
    found: dict[Path, Any] = {}
    for key, value in obj.items():
        path = (*under, key)
        if isinstance(value, dict) and value:
            found |= leaves(value, path)
        else:
            found[path] = value
    return found


def with_leaf(obj: dict[str, Any], path: Path, value: Any) -> None:
    for step in path[:-1]:
        obj = obj.setdefault(step, {})
    obj[path[-1]] = copy_json(value)


def without_leaf(obj: dict[str, Any], path: Path) -> None:
    """Remove a value, and the maps that it leaves empty."""
    holders = [obj]
    for step in path[:-1]:
        if not isinstance(holders[-1].get(step), dict):
            return
        holders.append(holders[-1][step])
    holders[-1].pop(path[-1], None)
    for holder, step in zip(reversed(holders[:-1]), reversed(path[:-1]), strict=True):
        if not holder[step]:
            del holder[step]
