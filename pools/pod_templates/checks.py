"""Checks that templates fit the pool and the platforms that name them. Pure."""

from collections.abc import Iterator, Mapping, Sequence

from pools.pod_templates.applied import Templates, applied
from scheduling.errors import Fault, Path

Named = tuple[Sequence[str], Mapping[str, str]]
"""The templates that a pool or platform names, and its own node selector."""

COMMON, OVERRIDE = "common_pod_template", "override_pod_template"


def contradictions(*, pool: Named, platforms: Mapping[str, Named], templates: Templates) -> Iterator[Fault]:
    """Find unknown templates, init containers without an image, and selectors that exclude each other.

    A platform's nodes are some of its pool's, so the selectors of a pool and its templates hold below too.
    """
    faults = list(_name_faults(pool[0], templates, (COMMON,)))
    yield from faults
    if faults:
        return
    common = applied({}, named=pool[0], variables={}, templates=templates)
    yield from _selector_faults(pool[0], pool[1], templates, (COMMON,), whose="the pool")
    yield from _without_image(common, (COMMON,))
    selected = {**_selector(common), **pool[1]}
    for name, (named, selector) in platforms.items():
        path: Path = ("platforms", name, OVERRIDE)
        faults = list(_name_faults(named, templates, path))
        yield from faults
        if faults:
            continue
        yield from _selector_faults(named, selected, templates, path, whose="the pool")
        yield from _selector_faults(named, selector, templates, path, whose="the platform")
        yield from _platform_selector_faults(
            selector, _selector(common), ("platforms", name, "node_selector")
        )
        if named:
            yield from _without_image(applied(common, named=named, variables={}, templates=templates), path)


def _name_faults(named: Sequence[str], templates: Templates, path: Path) -> Iterator[Fault]:
    for place, name in enumerate(named):
        if name not in templates:
            message = f'There is no pod template "{name[:63]}".'
            yield Fault(
                (*path, place), "unknown_pod_template", message, allowed=tuple(sorted(templates))[:50]
            )
        elif name in named[:place]:
            yield Fault((*path, place), "twice", f'"{name}" stands above already.')


def _selector_faults(
    named: Sequence[str], selected: Mapping[str, str], templates: Templates, path: Path, *, whose: str
) -> Iterator[Fault]:
    for place, name in enumerate(named):
        own = _selector({"pod": templates[name][0]})
        for label in own.keys() & selected.keys():
            expected, value = selected[label], own[label]
            if expected != value:
                message = f'{whose} selects {label}={expected}, and pod template "{name}" {label}={value}.'
                yield Fault((*path, place), "contradicts_selector", message, allowed=(expected,))


def _platform_selector_faults(
    selector: Mapping[str, str], selected: Mapping[str, str], path: Path
) -> Iterator[Fault]:
    for label, value in selector.items():
        expected = selected.get(label, value)
        if expected != value:
            message = f'The pool\'s templates select {label}={expected}; a platform cannot say "{value}".'
            yield Fault((*path, label), "contradicts_pool", message, allowed=(expected,))


def _selector(result: Mapping[str, object]) -> Mapping[str, str]:
    pod = result.get("pod") or {}
    return pod.get("spec", {}).get("nodeSelector", {})  # type: ignore[attr-defined,no-any-return]  # JSON


def _without_image(result: Mapping[str, object], path: Path) -> Iterator[Fault]:
    """Find init containers to which no template gives an image."""
    pod = result.get("pod") or {}
    for container in pod.get("spec", {}).get("initContainers", []):  # type: ignore[attr-defined]  # JSON
        if not container.get("image"):
            message = f'Init container "{container["name"][:63]}" has no image in these templates together.'
            yield Fault(path, "no_image", message)
