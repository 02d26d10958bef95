"""The order of task groups: what waits for what, and whether that can ever end."""

from collections.abc import Iterator, Mapping


def find_cycle(upstream: Mapping[str, tuple[str, ...]]) -> tuple[str, ...]:
    """A cycle among groups, its first group repeated at the end; empty if there is none."""
    done: set[str] = set()
    for start in upstream:
        trail: dict[str, Iterator[str]] = {}
        stack = [start] if start not in done else []
        while stack:
            here = stack[-1]
            if here not in trail:
                trail[here] = iter(upstream.get(here, ()))
            following = next(trail[here], None)
            if following is None:
                done.add(here)
                del trail[here]
                stack.pop()
            elif following in trail:
                names = list(trail)
                return (*names[names.index(following) :], following)
            elif following not in done:
                stack.append(following)
    return ()
