"""The runs: each use case placed, followed, checked and taken down; and the ones that must wait."""

import re
from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

from localcluster.demo import site
from localcluster.demo.report import Report, wait_for
from localcluster.demo.view import POD_GROUPS, Diary, View
from localcluster.directories import CHECKOUT
from localcluster.rest import Refused, Rest

EXAMPLES = CHECKOUT / "examples"
PICTURES = CHECKOUT / "artefacts" / "pictures"
PLACED = 150.0
NO_ROOM = re.compile(r"room for|tasks fit")
RELEASED = 150.0
NOTED = 30.0
RETRY = "osmo.nvidia.com/retry"
LEVELS = "TopologyLevelsUnavailable"


@dataclass(frozen=True, slots=True)
class Placed:
    """Where a workflow's one task group came to stand: task name to node name."""

    nodes: dict[str, str]
    view: View

    def domains(self, label: str, tasks: Collection[str] = ()) -> set[str]:
        """Domains that these tasks are in; of all tasks, if none are named."""
        return {
            self.view.domain(node, label) for task, node in self.nodes.items() if task in (tasks or [task])
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
    """The means with which the scenes of one lane are played."""

    service: Rest
    view: View
    diary: Diary
    report: Report

    def run(self, pool: str) -> "Run":
        return Run(service=self.service, view=self.view, diary=self.diary, report=self.report, pool=pool)


class Run:
    """One submission of one example to one pool."""

    def __init__(self, *, service: Rest, view: View, diary: Diary, report: Report, pool: str) -> None:
        self.service = service
        self.view = view
        self.diary = diary
        self.report = report
        self.pool = pool
        self.namespace = site.namespace_of(pool)
        self.name = ""
        self.group = ""
        self.uuids: set[str] = set()

    def submit(self, example: str, *, priority: str = "NORMAL", recovery: str = "", **changed: str) -> None:
        """Submit an example, with this policy of ``recovery``.

        ``changed`` replaces the value that stands behind a key in it.
        """
        text = (EXAMPLES / example).read_text()
        for key, value in changed.items():
            text = re.sub(rf"\b{key}: \w+", f"{key}: {value}", text)
        if recovery:
            text = text.replace("workflow:\n", f"workflow:\n  recovery: {recovery}\n", 1)
        reply = self.service.submit(self.pool, text, priority=priority)
        self.name = reply["name"]
        how = "" if priority == "NORMAL" else f" with priority {priority}"
        self.report.line(f"submitted {example} to pool {self.pool}{how}: {self.name}")
        for warning in reply.get("warnings") or []:
            self.report.line(f"warning: {warning}")
        self._follow(self.service.workflow(self.name))

    def _follow(self, answer: dict[str, Any]) -> None:
        """Know the task group by its uuid, and everything in the cluster by those of group and tasks."""
        (group,) = answer["groups"]
        self.group = group["uuid"]
        self.uuids = {self.group, *(task["task_uuid"] for task in group["tasks"])}

    def restart(self) -> None:
        """Run it again as a new workflow, which this run follows from now on."""
        former = self.name
        self.name = self.service.call("POST", f"/api/pool/{self.pool}/workflow/{former}/restart", {})["name"]
        answer = self.service.workflow(self.name)
        self._follow(answer)
        parent = f"{answer['parent_name']}-{answer['parent_job_id']}"
        self.report.check(parent == former, f"{self.name} restarts {former}", parent)

    def check_preempted(self) -> None:
        """It lost its places to work of higher priority, and says so."""
        self._wait_until_released("FAILED_PREEMPTED")
        (group,) = self.service.workflow(self.name)["groups"]
        codes = {task["exit_code"] for task in group["tasks"]}
        self.report.check(3006 in codes, "its tasks carry exit code 3006", codes)
        self.report.line(f"reason: {group['failure_message']}")

    def pods(self) -> list[dict[str, Any]]:
        return self.view.of_group(self.namespace, "Pod", self.group)

    def wait_until_placed(self, tasks: int) -> Placed:
        def all_running(pods: list[dict[str, Any]]) -> bool:
            return len(pods) == tasks and all(pod["status"].get("phase") == "Running" for pod in pods)

        pods = wait_for(self.pods, until=all_running, seconds=PLACED)
        bound = {_task(pod): pod["spec"]["nodeName"] for pod in pods if pod["spec"].get("nodeName")}
        self.report.check(
            len(bound) == tasks, f"all {tasks} pods have a node", f"{len(bound)} of {len(pods)} pods"
        )
        return Placed(nodes=dict(sorted(bound.items())), view=self.view)

    def wait_until_running(self) -> None:
        """Wait until the service, which follows the pods, says that the workflow runs."""
        wait_for(
            lambda: self.service.workflow(self.name)["status"],
            until=lambda status: status == "RUNNING",
            seconds=PLACED,
        )

    def wait_for_attempt(self, number: int, *, tasks: int) -> Placed:
        """Wait until the pods of the group's next attempt are all placed; its status must not go back."""
        statuses: set[str] = set()
        retry = str(number - 1)

        def of_attempt(pods: list[dict[str, Any]]) -> bool:
            retries = {pod["metadata"]["labels"][RETRY] for pod in pods}
            placed = [pod for pod in pods if pod["status"].get("phase") == "Running"]
            return retries == {retry} and len(placed) == tasks

        def observe() -> list[dict[str, Any]]:
            answer = self.service.workflow(self.name)
            statuses.update((answer["status"], answer["groups"][0]["status"]))
            return self.pods()

        pods = wait_for(observe, until=of_attempt, seconds=PLACED)
        self.report.check(of_attempt(pods), f"all {tasks} pods of attempt {number} have a node", len(pods))
        self.report.check(
            statuses == {"RUNNING"}, "group and workflow were RUNNING all the time", sorted(statuses)
        )
        lines = [line for line in self.service.events(self.name) if f"attempt {number}" in line]
        self.report.check(bool(lines), "the timeline says why it is tried again", lines)
        self.report.block("\n".join(lines[:1]))
        bound = {_task(pod): pod["spec"]["nodeName"] for pod in pods if pod["spec"].get("nodeName")}
        return Placed(nodes=dict(sorted(bound.items())), view=self.view)

    def objects(self) -> dict[str, str]:
        """The pods, pod groups and ComputeDomains of the group: uid to name."""
        kinds = ("Pod", *POD_GROUPS, "ComputeDomain")
        return {
            obj["metadata"]["uid"]: f"{kind} {obj['metadata']['name']}"
            for kind in kinds
            for obj in self.view.of_group(self.namespace, kind, self.group)
        }

    def queues(self) -> set[str]:
        """The queues of Kueue that the group's Workloads name."""
        workloads = self.view.of_group(self.namespace, "Workload", self.group)
        return {workload["spec"]["queueName"] for workload in workloads}

    def check_replaced(self, former: dict[str, str]) -> None:
        """Nothing is left of the objects that an attempt had before."""
        now = self.objects()
        left = [name for uid, name in former.items() if uid in now]
        self.report.check(not left, "no pod, pod group or ComputeDomain of attempt 1 is left", left)
        self.report.check(len(now) == len(former), "attempt 2 has as many of its own", sorted(now.values()))

    def show(self, placed: Placed) -> None:
        for pod_group in self._pod_groups():
            self.report.block(describe_pod_group(pod_group))
        keys = site.keys_of(self.pool)
        rows = [
            [task, node, *(self.view.domain(node, site.LABELS[key]) for key in keys)]
            for task, node in placed.nodes.items()
        ]
        self.report.table(["task", "node", *keys], rows)

    def check_outcome(self, want: str, **missed: str) -> None:
        """The service says what the group got of what it asked for; ``missed`` has each missed key's type."""

        def outcome_in(answer: dict[str, Any]) -> dict[str, Any]:
            return answer["groups"][0]["got"] or {}

        answer = wait_for(
            lambda: self.service.workflow(self.name),
            until=lambda answer: bool(outcome_in(answer)),
            seconds=PLACED,
        )
        outcome = outcome_in(answer)
        self.report.check(outcome.get("outcome") == want, f"the service says: {want}", outcome)
        for placed_set in outcome.get("sets", ()):
            where = ", ".join(
                f"{'/'.join(place['path'])} ({place['tasks']})" for place in placed_set["domains"]
            )
            requirement = "required" if placed_set["required"] else "preferred"
            self.report.line(f"  {placed_set['outcome']:9}  {requirement} {placed_set['key']}: in {where}")
        missed_by_set = {
            placed_set["key"]: "required" if placed_set["required"] else "preferred"
            for placed_set in outcome.get("sets", ())
            if placed_set["outcome"] != "match"
        }
        self.report.check(
            missed_by_set == missed, f"it missed {', '.join(missed) or 'nothing'}", missed_by_set
        )

    def check_explained(self, *whys: str) -> None:
        """The explanation is of this kind, tells since when, what would help, and what each domain lacks."""
        answer = wait_for(  # the usage of somebody else's pods is heard of a moment later
            lambda: self.service.call("GET", f"/api/workflow/{self.name}/explain"),
            until=lambda explanation: explanation["groups"][0]["why"] in whys,
            seconds=PLACED,
        )
        (group,) = answer["groups"]
        self.report.check(
            group["why"] in whys, f"the explanation is of kind {' or '.join(whys)}", group["why"]
        )
        self.report.check(
            bool(group["since"] and group["help"]), "it says since when and what would help", group
        )
        self.report.line(f"explained: {answer['sentence']}")
        self.report.line(f"what helps: {group['help']}")

    def draw(self) -> None:
        """Keep the picture of the pool's map, with this workflow on it, and the address of both pages."""
        name = quote(self.name)
        picture = str(self.service.call("GET", f"/ui/pools/{self.pool}/map.svg?workflow={name}"))
        PICTURES.mkdir(parents=True, exist_ok=True)
        path = PICTURES / f"demo-{self.pool}-{self.name}.svg"
        path.write_text(picture)
        self.report.check(
            "</svg>" in picture, f"the map of pool {self.pool} shows it: {path.relative_to(CHECKOUT)}"
        )

    def check_compute_domain(self, *, claims: int) -> None:
        """The group's ComputeDomain is there and each claiming pod holds a channel of it."""
        domains = self.view.of_group(self.namespace, "ComputeDomain", self.group)
        self.report.check(len(domains) == 1, "the group has one ComputeDomain", len(domains))
        claiming_pods = [pod for pod in self.pods() if pod["status"].get("resourceClaimStatuses")]
        self.report.check(
            len(claiming_pods) == claims, f"{claims} pods hold a channel claim", len(claiming_pods)
        )

    def check_no_compute_domain(self) -> None:
        domains = self.view.of_group(self.namespace, "ComputeDomain", self.group)
        self.report.check(not domains, "no ComputeDomain is made", len(domains))

    def finish(self) -> None:
        """End the work and follow the group until nothing of it is left."""
        self.finish_beside_others()
        self._check_nothing_left()
        self._check_log()

    def finish_beside_others(self) -> None:
        self.view.finish(self.namespace, self.group)
        self._wait_until_released("COMPLETED")

    def cancel(self) -> None:
        self.cancel_beside_others()
        self._check_nothing_left()

    def cancel_beside_others(self) -> None:
        self.service.cancel(self.name, message="end of the demo run")
        self._wait_until_released("FAILED_CANCELED")

    def _wait_until_released(self, status: str) -> None:
        def released(answer: dict[str, Any]) -> bool:
            return bool(answer["groups"][0]["released_at"])

        answer = wait_for(lambda: self.service.workflow(self.name), until=released, seconds=RELEASED)
        group = answer["groups"][0]
        self.report.check(answer["status"] == status, f"the workflow ended as {status}", answer["status"])
        self.report.check(released(answer), "the group is Released", group.get("conditions"))

    def _check_nothing_left(self) -> None:
        left = [
            name for name in self.view.leftovers(self.namespace) if any(uuid in name for uuid in self.uuids)
        ]
        self.report.check(not left, f"nothing of it is left in namespace {self.namespace}", left)

    def _check_log(self) -> None:
        """Its pods are gone; their logs are in the store."""
        text: str = self.service.call("GET", f"/api/workflow/{self.name}/logs")
        lines = text.splitlines()
        self.report.check(
            bool(lines) and not any("not kept" in line for line in lines), "its log is still there", lines
        )
        self.report.block("\n".join(lines[:1]))

    def _pod_groups(self) -> list[dict[str, Any]]:
        return [obj for kind in POD_GROUPS for obj in self.view.of_group(self.namespace, kind, self.group)]

    def show_compute_domain_life(self) -> None:
        """Print the ComputeDomain's life and check its order against the pods'."""
        life = wait_for(
            lambda: self.diary.of_group(self.group),
            until=lambda entries: any(e.kind == "ComputeDomain" and e.change == "DELETED" for e in entries),
            seconds=NOTED,
        )
        own = [entry for entry in life if entry.kind == "ComputeDomain"]
        pods = [entry for entry in life if entry.kind == "Pod"]
        self.report.line("life of the ComputeDomain:")
        for entry in own:
            self.report.line(f"  {entry.at:%H:%M:%S.%f}"[:-3] + f"  {entry.change.lower():8}  {entry.state}")
        if not own or not pods:
            self.report.check(holds=False, sentence="the diary saw the ComputeDomain and the pods")
            return
        self.report.line(f"  first pod made {pods[0].at:%H:%M:%S}, last pod gone {pods[-1].at:%H:%M:%S}")
        first_made = min(entry.version for entry in pods)
        self.report.check(own[0].version < first_made, "the ComputeDomain was made before the first pod")
        deleting = [entry for entry in own if entry.state == "being deleted" or entry.change == "DELETED"]
        last_gone = max((entry.version for entry in pods if entry.change == "DELETED"), default=None)
        self.report.check(
            bool(deleting) and last_gone is not None and deleting[0].version > last_gone,
            "the ComputeDomain was deleted after the last pod was gone",
        )
        self.report.check(own[-1].change == "DELETED", "the ComputeDomain is gone")

    def check_waits(self, *, tasks: int) -> None:
        """No pod gets a node, and the service says why in plain words."""

        def explained(answer: dict[str, Any]) -> bool:
            group = answer["groups"][0]
            return bool(self._scheduler_spoke()) and group["status"] == "SCHEDULING" and _says_why(group)

        answer = wait_for(lambda: self.service.workflow(self.name), until=explained, seconds=PLACED)
        group = answer["groups"][0]
        pods = self.pods()
        placed = [pod for pod in pods if pod["spec"].get("nodeName")]
        self.report.check(
            len(pods) == tasks and not placed, f"all {tasks} pods wait without a node", len(placed)
        )
        self.report.check(group["status"] == "SCHEDULING", "the group is SCHEDULING", group["status"])
        reason = group["waiting_reason"]
        self.report.check(
            _says_why(group), "the service says that there is no room for it, and where", reason
        )
        self.report.line(f"reason: {reason}")

    def check_waits_without_pods(self) -> None:
        """The group waits for Kueue's admission: it has no pod, and the service says why in plain words."""
        group = wait_for(
            lambda: self.service.workflow(self.name)["groups"][0], until=_says_why, seconds=PLACED
        )
        reason = group["waiting_reason"]
        self.report.check(
            _says_why(group), "the service says that there is no room for it, and where", reason
        )
        self.report.check(not self.pods(), "no pod exists before Kueue has admitted the group", self.pods())
        self.report.line(f"reason: {reason}")

    def check_levels(self, status: str) -> str:
        """The group's condition about its levels comes to this status; returns what it says."""

        def levels_condition(answer: dict[str, Any]) -> dict[str, Any]:
            conditions = answer["groups"][0]["conditions"]
            return next((condition for condition in conditions if condition["type"] == LEVELS), {})

        answer = wait_for(
            lambda: self.service.workflow(self.name),
            until=lambda answer: levels_condition(answer).get("status") == status,
            seconds=PLACED,
        )
        condition = levels_condition(answer)
        sentence = f"{self.name}: {LEVELS} is {status} ({condition.get('reason')})"
        self.report.check(condition.get("status") == status, sentence, condition)
        return str(condition.get("message"))

    def check_running(self, placed: Placed) -> None:
        """The same pods still run on the same nodes."""
        now = {_task(pod): pod["spec"].get("nodeName") for pod in self.pods()}
        self.report.check(now == placed.nodes, f"{self.name} runs on where it was", now)

    def show_events_of_levels(self) -> None:
        for line in self.service.call("GET", f"/api/workflow/{self.name}/events").splitlines():
            if "TopologyLevels" in line:
                self.report.line(line)

    def wait_until_patient(self) -> None:
        """The group waits, and the service says what it is held to and until when."""

        def is_patient(answer: dict[str, Any]) -> bool:
            return (answer["groups"][0]["patience"] or {}).get("next_relaxation_at") is not None

        answer = wait_for(lambda: self.service.workflow(self.name), until=is_patient, seconds=PLACED)
        group = answer["groups"][0]
        self.report.check(
            is_patient(answer), "the service says when the preference is relaxed", group["patience"]
        )
        for pod_group in self._pod_groups():
            self.report.block(describe_pod_group(pod_group))
        self.report.line(f"reason: {group['waiting_reason']}")

    def check_relaxed(self) -> None:
        """The preferences are relaxed, in the group's constraints and as an event."""
        (group,) = self.service.workflow(self.name)["groups"]
        relaxed = [line["key"] for line in group["constraints"] if line.get("relaxed")]
        self.report.check(bool(relaxed), "the service shows what was relaxed", group["constraints"])
        lines = [line for line in self.service.events(self.name) if " Relaxed: " in line]
        self.report.check(len(lines) == 1, "the relaxation is one event of the workflow", lines)
        self.report.block("\n".join(lines))

    def _scheduler_spoke(self) -> list[Any]:
        return [
            c
            for pod_group in self._pod_groups()
            for c in pod_group.get("status", {}).get("schedulingConditions", [])
        ]


def _says_why(group: dict[str, Any]) -> bool:
    return bool(NO_ROOM.search(group["waiting_reason"] or ""))


def _task(pod: dict[str, Any]) -> str:
    return str(pod["metadata"]["labels"]["osmo.task_name"])


def describe_pod_group(pod_group: dict[str, Any]) -> str:
    """A pod group in a few lines: its constraint, and its sub-groups under their parents."""
    spec = pod_group["spec"]
    if "podSets" in spec:
        return _describe_workload(pod_group)
    head = f"PodGroup {pod_group['metadata']['name']}"
    if "schedulingPolicy" in spec:
        keys = [entry["key"] for entry in spec.get("schedulingConstraints", {}).get("topology", [])]
        count = spec["schedulingPolicy"]["gang"]["minCount"]
        return f"{head}: {count} pods, required {', '.join(keys) or 'nothing'}"
    size = f"{spec['minMember']} pods, " if "minMember" in spec else ""
    lines = [f"{head}: {size}{_constraint(spec.get('topologyConstraint'))}, queue {spec['queue']}"]
    children: dict[str | None, list[dict[str, Any]]] = {}
    for sub_group in spec.get("subGroups", []):
        children.setdefault(sub_group.get("parent"), []).append(sub_group)

    def draw(parent: str | None, depth: int) -> None:
        for sub_group in sorted(children.get(parent, []), key=lambda item: item["name"]):
            count = f"{sub_group['minMember']} pods, " if "minMember" in sub_group else ""
            constraint = _constraint(sub_group.get("topologyConstraint"))
            lines.append("  " * depth + f"- {sub_group['name']}: {count}{constraint}")
            draw(sub_group["name"], depth + 1)

    draw(None, 1)
    return "\n".join(lines)


def _describe_workload(workload: dict[str, Any]) -> str:
    """Kueue's object in a few lines: the queue, and what each pod set requests of the topology."""
    spec = workload["spec"]
    lines = [f"Workload {workload['metadata']['name']}: queue {spec['queueName']}"]
    for pod_set in spec["podSets"]:
        request = pod_set.get("topologyRequest", {})
        wants = ", ".join(f"{field} {value}" for field, value in request.items()) or "no topology"
        lines.append(f"  - {pod_set['name']}: {pod_set['count']} pods, {wants}")
    return "\n".join(lines)


def _constraint(constraint: dict[str, str] | None) -> str:
    if not constraint:
        return "no constraint"
    parts = [
        f"{word} {constraint[field]}"
        for word, field in (("required", "requiredTopologyLevel"), ("preferred", "preferredTopologyLevel"))
        if field in constraint
    ]
    return ", ".join(parts)


def expect_refusal(report: Report, sentence: str, act: Callable[[], object], *, names: str) -> None:
    """Check that the service refuses with a 4xx that names what is missing."""
    try:
        act()
    except Refused as refusal:
        body = refusal.body
        report.check(400 <= refusal.status < 500, f"{sentence} is refused", refusal.status)
        report.check(names in str(body), f"the refusal names {names}", body.get("message"))
        report.line(f"answer: {refusal.status} {body.get('message')}")
        return
    report.check(holds=False, sentence=f"{sentence} is refused", evidence="accepted")
