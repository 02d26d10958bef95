"""What a verdict did not look at, so that a reader knows what else may keep a group from its place."""

from collections.abc import Mapping
from enum import StrEnum

from scheduling.fit.contention import DisplacementAnswer, PreemptionAnswer
from scheduling.fit.verdict import Verdict
from scheduling.queues.queue_state import QuotaAnswer


class Unexamined(StrEnum):
    """A thing that decides on a place and that a verdict leaves out."""

    QUOTA = "quota"
    FAIR_SHARE = "fair_share"
    PRIORITY = "priority"
    PREEMPTION = "preemption"
    CONSOLIDATION = "consolidation"
    RUN_TIMES = "run_times"
    OTHER_TENANTS = "other_tenants"
    CLAIMS = "claims"
    POD_CONDITIONS = "pod_conditions"


NOT_EXAMINED: Mapping[Unexamined, str] = {
    Unexamined.QUOTA: "What others use in the group's queue and in those above it.",
    Unexamined.FAIR_SHARE: "Fair share: which queue the scheduler serves first, and what a queue reclaims.",
    Unexamined.PRIORITY: "Other work that waits, and which of it the scheduler places first.",
    Unexamined.PREEMPTION: "Work that the scheduler may preempt for the group.",
    Unexamined.CONSOLIDATION: "Whether running work that the scheduler would move finds another place.",
    Unexamined.RUN_TIMES: "Minimum run times, which spare running work from being reclaimed or preempted.",
    Unexamined.OTHER_TENANTS: "Other tenants' pods: what they use counts as free.",
    Unexamined.CLAIMS: (
        "Devices by resource claims of others, taints that rules put on devices, and NVLink channels of pods "
        "that are ending."
    ),
    Unexamined.POD_CONDITIONS: (
        "Volumes, host ports, affinity between pods, use of resources that a pod template adds, and the "
        "overhead of a RuntimeClass."
    ),
}


def unexamined(verdict: Verdict | None, *, others_known: bool) -> tuple[Unexamined, ...]:
    """What the verdict on one group left out; all of it, where there is no verdict."""
    if verdict is None:
        return tuple(Unexamined)
    examined = set()
    if verdict.quota.answer is not QuotaAnswer.UNKNOWN:
        examined.add(Unexamined.QUOTA)
    if verdict.quota.answer is QuotaAnswer.NONE:
        examined |= {Unexamined.FAIR_SHARE, Unexamined.RUN_TIMES, Unexamined.CONSOLIDATION}
    if verdict.contention.place is not None:
        examined.add(Unexamined.PRIORITY)
    if verdict.contention.preemption.answer is not PreemptionAnswer.UNKNOWN:
        examined.add(Unexamined.PREEMPTION)
    if verdict.contention.consolidation.answer not in (
        DisplacementAnswer.UNKNOWN,
        DisplacementAnswer.POSSIBLE,
    ):
        examined.add(Unexamined.CONSOLIDATION)
    if others_known:
        examined.add(Unexamined.OTHER_TENANTS)
    return tuple(entry for entry in Unexamined if entry not in examined)
