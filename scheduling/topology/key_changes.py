"""A change of a pool's keys in sentences: keys that are added, removed, moved or get another label."""

from collections.abc import Iterator

from scheduling.topology.levels import Levels


def key_changes(before: Levels, after: Levels) -> list[str]:
    """One sentence for each change; empty if there is none. Levels run broadest first."""
    return [
        *_removed(before, after),
        *_new(before, after),
        *_relabelled(before, after),
        *_order(before, after),
    ]


def _removed(before: Levels, after: Levels) -> Iterator[str]:
    keys = {level.key for level in after}
    for level in before:
        if level.key not in keys:
            yield f'Key "{level.key}" ({level.label}) goes: a new workflow that names it is refused.'


def _new(before: Levels, after: Levels) -> Iterator[str]:
    keys = {level.key for level in before}
    for place, level in enumerate(after):
        if level.key not in keys:
            yield f'Key "{level.key}" ({level.label}) appears, {_between(after, place)}.'


def _between(levels: Levels, place: int) -> str:
    if len(levels) == 1:
        return "the only one"
    if place == 0:
        return f'broader than "{levels[1].key}"'
    return f'narrower than "{levels[place - 1].key}"'


def _relabelled(before: Levels, after: Levels) -> Iterator[str]:
    labels = {level.key: level.label for level in before}
    for level in after:
        if labels.get(level.key, level.label) != level.label:
            yield f'Key "{level.key}" stands for {level.label} instead of {labels[level.key]}.'


def _order(before: Levels, after: Levels) -> Iterator[str]:
    common = {level.key for level in before} & {level.key for level in after}
    was = [level.key for level in before if level.key in common]
    now = [level.key for level in after if level.key in common]
    if was != now:
        yield f"The order changes from {', '.join(was)} to {', '.join(now)}, broadest first."
