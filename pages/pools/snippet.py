"""A workflow to copy, written with a pool's own keys and the amounts that its nodes have. Pure.

The pool accepts it as it is. Its tasks must share one domain of the narrowest key whose domains have several
nodes; with enough keys, that key is only preferred and the next broader one required. With NVLink it is
required: tasks that claim channels outside one clique gain nothing.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from scheduling.topology.levels import HOSTNAME_LABEL, Levels


@dataclass(frozen=True, slots=True, kw_only=True)
class Asks:
    """The amounts that a task of the snippet requests: GPUs, cores, GiB."""

    gpu: int = 1
    cpu: int = 1
    memory: int = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Offer:
    """The offer of a pool: its keys, broadest first, and what its scheduler can do with them."""

    levels: Levels
    nvlink: bool
    can_require: bool
    can_prefer: bool
    platform: str | None
    asks: Asks
    tasks: int


def snippet(offer: Offer) -> str:
    """The YAML of a workflow with one group of ``tasks`` tasks."""
    lines = [
        "version: 2",
        "workflow:",
        "  name: my-training",
        "  groups:",
        "    - name: train",
        "      tasks:",
        *_tasks(offer.tasks),
        "  resources:",
        "    shard:",
        *([f"      platform: {quoted(offer.platform)}"] if offer.platform else []),
        *([f"      gpu: {offer.asks.gpu}"] if offer.asks.gpu else []),
        f"      cpu: {offer.asks.cpu}",
        f"      memory: {offer.asks.memory}Gi",
        *_topology(offer),
    ]
    return "\n".join(lines) + "\n"


def _tasks(count: int) -> list[str]:
    lines = []
    for index in range(count):
        lead = ["          lead: true"] if index == 0 else []
        lines += [
            f"        - name: worker-{index}",
            *lead,
            "          image: nvcr.io/nvidia/pytorch:25.10-py3",
            "          command: [python, train.py]",
            "          resource: shard",
        ]
    return lines


def _topology(offer: Offer) -> list[str]:
    levels = [level for level in offer.levels if level.label != HOSTNAME_LABEL]
    if not levels or not offer.can_require:
        return []
    if len(levels) > 2 and offer.can_prefer and not offer.nvlink:
        must, should = levels[-2], levels[-1]
        wish = _requirement(should.key, f"and in one {should.key}, if that can be", preferred=True)
    else:
        must, wish = levels[-1], []
    return ["      topology:", *_requirement(must.key, f"all tasks in one {must.key}"), *wish]


def _requirement(key: str, comment: str, *, preferred: bool = False) -> list[str]:
    lines = [f"        - key: {quoted(key)} # {comment}"]
    if preferred:
        lines.append("          requirementType: preferred")
    return lines


def quoted(word: str) -> str:
    """A name as YAML reads it back: some words (``no``, ``1e3``) mean something else without quotes."""
    return word if word.isidentifier() and word.lower() not in _YAML_WORDS else f'"{word}"'


_YAML_WORDS = frozenset({"y", "n", "yes", "no", "on", "off", "true", "false", "null", "none"})


def amounts_for(nodes: Sequence[Asks]) -> Asks:
    """The request that fills the GPUs of the most common kind of node, and half of everything else."""
    with_gpu = [node for node in nodes if node.gpu] or list(nodes)
    if not with_gpu:
        return Asks()
    counts: dict[int, int] = {}
    for node in with_gpu:
        counts[node.gpu] = counts.get(node.gpu, 0) + 1
    gpu = max(counts, key=lambda number: (counts[number], number))
    alike = [node for node in with_gpu if node.gpu == gpu]
    return Asks(
        gpu=gpu,
        cpu=max(1, min(node.cpu for node in alike) // 2),
        memory=max(1, min(node.memory for node in alike) // 2),
    )
