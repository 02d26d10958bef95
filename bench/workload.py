"""The workflows that the bench submits, as the text a user would write."""

IMAGE = "registry.example.com/team/train:1"
SET = 8


def one_group(tasks: int, *, name: str, gpu: int = 0, sets_of: int = 0) -> str:
    """A workflow of one task group, every task written out.

    ``sets_of`` puts tasks by so many into co-location sets: each required in one rack, and the
    whole group preferred in one zone. 0: no topology.
    """
    lines = [
        "version: 2",
        "workflow:",
        f"  name: {name}",
        "  groups:",
        "    - name: training",
        "      tasks:",
    ]
    for number in range(tasks):
        resource = f"set-{number // sets_of}" if sets_of else "plain"
        lines += [
            f"        - name: t{number}",
            f"          image: {IMAGE}",
            '          command: ["python", "-m", "train"]',
            f'          args: ["--rank", "{number}", "--epochs", "3", "--data", "/data"]',
            "          environment: {OMP_NUM_THREADS: '8', NCCL_DEBUG: INFO, RUN: bench}",
            f"          resource: {resource}",
        ]
        if number == 0 and tasks > 1:
            lines.append("          lead: true")
    lines.append("  resources:")
    size = f"gpu: {gpu}, cpu: 1, memory: 1Gi"
    if not sets_of:
        lines.append(f"    plain: {{{size}}}")
    for number in range(-(-tasks // sets_of) if sets_of else 0):
        zone = "{key: zone, requirementType: preferred}"
        lines.append(f"    set-{number}: {{{size}, topology: [{zone}, {{key: rack, group: r{number}}}]}}")
    return "\n".join(lines) + "\n"


def counted_group(tasks: int, *, name: str, gpu: int, sets_of: int) -> str:
    """The same gang with sets, written with ``count`` and ``segment``."""
    fields = 'command: ["python", "-m", "train"], args: ["--rank", "{{task_index}}"], resource: plain'
    segment = f"segment: {{size: {sets_of}, key: rack}}"
    zone = "topology: [{key: zone, requirementType: preferred}]"
    return (
        f"workflow:\n  name: {name}\n  groups:\n    - name: training\n      tasks:\n"
        f"        - {{name: t, count: {tasks}, lead: true, {segment}, image: {IMAGE}, {fields}}}\n"
        f"  resources:\n    plain: {{gpu: {gpu}, cpu: 1, memory: 1Gi, {zone}}}\n"
    )
