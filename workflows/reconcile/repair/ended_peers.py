"""Telling start barriers that are at work which of their peers have ended meanwhile.

A task that ends leaves the group's service. One that was quick may have gone before a peer, whose image was
still being pulled, looked for the first time: that peer would wait for it until its limit is over. So the
annotation of pods that have not begun follows the rows, and the kubelet brings it to the barrier.

The annotation is compared by the observer's digest. A pod that the observer has not seen changed is patched
again, to the same value.
"""

from cluster.errors import ObjectNotFound
from cluster.kinds import POD
from workflows.reconcile.objects.create import ended_tasks
from workflows.reconcile.turn import Turn
from workflows.values.observation import ENDED_ANNOTATION, PodSeen, text_digest

MOST_PATCHES = 100
"""In one reconciliation; the next one follows when the observer reports these."""


def name_ended_peers(turn: Turn) -> Turn:
    """Bring the ended tasks to the pods that still wait. Raises ClusterError."""
    view = turn.view
    if view.placement.start_barrier is None or not (ended := ended_tasks(view)):
        return turn
    pods = [pod for task in view.live if (pod := turn.observed.pods.get(task.pod_name))]
    waiting = [pod for pod in pods if _has_not_begun(pod)]
    if not waiting:
        return turn
    text = view.renderer.ended_text(ended)
    body = {"metadata": {"annotations": {ENDED_ANNOTATION: text}}}
    outdated = [pod for pod in waiting if pod.digest.get("ended") != text_digest(text)]
    for pod in outdated[:MOST_PATCHES]:
        try:
            turn.cluster.patch(POD, pod.name, body, namespace=pod.namespace)
        except ObjectNotFound:
            continue
    return turn


def _has_not_begun(pod: PodSeen) -> bool:
    return pod.phase == "Pending" and not pod.absent and not pod.deleting
