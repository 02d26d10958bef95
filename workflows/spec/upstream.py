"""The order of task groups: a cycle among those that wait for each other, or each after its upstream."""

from collections.abc import Iterator, Mapping


def find_cycle(upstream: Mapping[str, tuple[str, ...]]) -> tuple[str, ...]:
    """Find a cycle among groups, its first group repeated at the end; empty if there is none."""
    done: set[str] = set()
    for start in upstream:
        trail: dict[str, Iterator[str]] = {}
        stack = [start] if start not in done else []
        while stack:
            group = stack[-1]
            if group not in trail:
                trail[group] = iter(upstream.get(group, ()))
            following = next(trail[group], None)
            if following is None:
                done.add(group)
                del trail[group]
                stack.pop()
            elif following in trail:
                names = list(trail)
                return (*names[names.index(following) :], following)
            elif following not in done:
                stack.append(following)
    return ()


def upstream_first(upstream: Mapping[str, tuple[str, ...]]) -> tuple[str, ...]:
    """The groups, without a cycle: each in its turn, and just before it those it waits for."""
    ordered: dict[str, None] = {}
    stack = list(upstream)[::-1]
    while stack:
        if missing := [name for name in upstream[stack[-1]] if name not in ordered]:
            stack += reversed(missing)
        else:
            ordered[stack.pop()] = None
    return tuple(ordered)
