"""Whether two attempts of a group, or two pods of a task, were ever there at once, as the watch saw them.

The database says which attempt a pod belonged to: each try of a task has the try with which its attempt
began. The watch says when each pod came and went, in versions, which one etcd counts over all objects. Where
the watch was cut off, what went unseen counts as gone in time.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from itertools import combinations, pairwise, product

import psycopg

from chaos.monitor import Life

_ATTEMPTS = (
    "SELECT pod_name, dense_rank() OVER (PARTITION BY group_id, task_uuid ORDER BY first_retry) "
    "FROM workflows_task"
)
_ENDED = "SELECT loss, evidence, count(*) FROM workflows_attempt GROUP BY loss, evidence"


def of_pods(database_url: str) -> dict[str, int]:
    """The number of the attempt of each pod's try, by the pod's name."""
    with psycopg.connect(database_url) as connection:
        return {str(pod): int(number) for pod, number in connection.execute(_ATTEMPTS)}


def ended(database_url: str) -> Counter[str]:
    """How many attempts were followed by another one, by loss and evidence."""
    with psycopg.connect(database_url) as connection:
        rows = connection.execute(_ENDED).fetchall()
    return Counter({f"{loss}, {evidence}": int(count) for loss, evidence, count in rows})


def overlapping(pods: Iterable[Life], attempts: Mapping[str, int]) -> Iterator[str]:
    """Groups of which pods of two attempts were there at once."""
    by_group: dict[str, dict[int, list[Life]]] = defaultdict(lambda: defaultdict(list))
    for pod in pods:
        if pod.name in attempts:
            by_group[pod.group][attempts[pod.name]].append(pod)
    for group, by_attempt in by_group.items():
        for earlier, later in combinations(sorted(by_attempt), 2):
            left = {
                pod.name
                for pod, other in product(by_attempt[earlier], by_attempt[later])
                if not _gone_before(pod, other) and not _gone_before(other, pod)
            }
            if left:
                yield (
                    f"pods of attempt {later} of group {group} were there with {', '.join(sorted(left))} "
                    f"of attempt {earlier}"
                )


def _gone_before(pod: Life, other: Life) -> bool:
    return pod.went is not None and pod.went <= other.came


def doubled(pods: Iterable[Life]) -> Iterator[str]:
    """Tasks of which a pod came before the containers of the one before had ended."""
    by_task: dict[str, list[Life]] = defaultdict(list)
    for pod in pods:
        if pod.task:
            by_task[pod.task].append(pod)
    for task, lives in by_task.items():
        for earlier, later in pairwise(sorted(lives, key=lambda life: life.came)):
            end = min((at for at in (earlier.stopped, earlier.went) if at is not None), default=None)
            if end is None or end > later.came:
                yield f"task {task} had the pods {earlier.name} and {later.name} at once"
