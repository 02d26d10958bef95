"""A rendered KAI pod group as text, so that a whole tree is one golden value."""

from tests.unit.scheduling.kai_reader import Group, read


def picture(rendered) -> str:
    (pod_group,) = rendered.pod_groups
    return "\n".join(_lines(read(pod_group, rendered.pods, rendered.topologies), 0))


def _lines(group: Group, depth: int):
    place, _, rest = group.name.partition("-")
    kind = rest.partition("-")[2]
    words = [f"{place}{' ' + kind if kind else ''}" if group.name else "gang"]
    if constraint := group.constraint:
        short = [label.removeprefix("topology/") for label in constraint.topology]
        said = [
            f"{kind} {label.removeprefix('topology/')}"
            for kind, label in (("required", constraint.required), ("preferred", constraint.preferred))
            if label
        ]
        words.append(f"{' '.join(said)} on [{' '.join(short)}]")
    if group.minimum:
        words.append(f"min {group.minimum}: {' '.join(group.pods)}")
    yield "  " * depth + " | ".join(words)
    for child in sorted(group.groups, key=lambda g: g.name):
        yield from _lines(child, depth + 1)
