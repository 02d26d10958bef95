"""Sentences about tasks that have no place on any node, with the numbers of both."""

from collections.abc import Mapping, Sequence

from scheduling.fit.misfits import Apart, Misfit, NotSelected, Tainted, TooLarge, WithoutClique
from scheduling.sentences import agree, count_of, listing, plain_listing

MOST_NAMED = 3
MOST_DIGITS = 10_000


def misfit_sentence(misfit: Misfit) -> str:
    match misfit:
        case TooLarge():
            return f"{_subject(misfit)} asks for {_too_large(misfit)}.{_unnamed(misfit)}"
        case Tainted():
            return _tainted(misfit)
        case NotSelected(excluded=excluded, without_clique=bare) if excluded:
            others = (
                f", but for {count_of(bare, 'node')} in no NVLink clique, which it requires" if bare else ""
            )
            return f"{_subject(misfit)} excludes all nodes of its platform ({excluded}){others}."
        case NotSelected(selector=selector):
            labels = plain_listing([f"{key}={value}" for key, value in selector.items()], limit=MOST_NAMED)
            return f"{_subject(misfit)} selects nodes with {labels}, and no known node carries that."
        case WithoutClique():
            carry = agree(misfit.nodes, "the node carries", f"all {misfit.nodes} nodes carry")
            return (
                f"{_subject(misfit)} requires an NVLink clique, and {carry} a value of {misfit.label} that "
                "means none."
            )
        case Apart():
            return (
                f"{_subject(misfit)} asks for {_together(misfit.amounts)} and has room in {misfit.key} "
                f"{_path(misfit.place)}, {_tasks(misfit.others)} in {misfit.key} "
                f"{_path(misfit.other_place)}, and no {misfit.key} has room for both; all of them must share "
                "one."
            )
    raise TypeError(misfit)


def _subject(misfit: Misfit) -> str:
    if len(misfit.tasks) == misfit.of:
        return "its task" if misfit.of == 1 else "each of its tasks"
    return _tasks(misfit.tasks)


def _tasks(tasks: Sequence[str]) -> str:
    names = listing(tasks, limit=MOST_NAMED)
    return f"task {names}" if len(tasks) == 1 else f"each of {count_of(len(tasks), 'task')} ({names})"


def _too_large(misfit: TooLarge) -> str:
    if not misfit.amounts:
        return f"{_together(misfit.together)}, and no node has all of that"
    texts = []
    for resource, (demanded, most) in misfit.amounts.items():
        node = f"the largest node has {amount_of(resource, most)}" if most else "no node has any"
        texts.append(f"{amount_of(resource, demanded)}, and {node}")
    return "; it asks for ".join(texts)


def _unnamed(misfit: TooLarge) -> str:
    if not misfit.unnamed:
        return ""
    listed = [f"{driver} ({count_of(count, 'node')})" for driver, count in misfit.unnamed.items()]
    return (
        f" Devices of {plain_listing(listed, limit=MOST_NAMED)} are there, and no DeviceClass gives them to "
        "tasks that ask for GPUs by number: use a claim template in a pod template, or another pool."
    )


def _together(amounts: Mapping[str, int]) -> str:
    texts = [amount_of(name, amount) for name, amount in amounts.items() if name not in {"pods", "channels"}]
    return plain_listing(texts, limit=len(texts))


def _tainted(misfit: Tainted) -> str:
    nodes = "the node" if misfit.nodes == 1 else f"all {misfit.nodes} nodes"
    taints = plain_listing([f"{t} ({number})" for t, number in misfit.taints.items()], limit=MOST_NAMED)
    carry = agree(misfit.nodes, "carries", "carry")
    return f"{nodes} that {_subject(misfit)} may use {carry} taints that it does not tolerate: {taints}."


def _path(path: tuple[str, ...]) -> str:
    return f'"{"/".join(path)}"'


def amount_of(resource: str, amount: float) -> str:
    match resource:
        case "gpu":
            return f"{amount:g} {'GPU' if amount == 1 else 'GPUs'}"
        case "cpu":
            return f"{amount / 1000:g} cores"
        case "pods":
            return count_of(int(amount), "pod")
        case _ if resource in {"memory", "storage"} or resource.startswith("hugepages-"):
            return f"{_gib(amount)} of {resource}"
        case _:
            return f"{amount:g} {resource}"


def _gib(amount: float) -> str:
    number = amount / 2**30
    return f"{number:.4g} GiB" if number < MOST_DIGITS else f"{number:.0f} GiB"
