"""All hear that another ComputeDomain holds a node; those who may know its workflow read the name."""

from django.utils import timezone

from tests.factories import LEVELS
from tests.worker.world import World
from workflows.feasibility.verdict.sentences import ANOTHER_WORKFLOW
from workflows.models import ObservedObject
from workflows.reconcile.observe.observations import compute_domain_owners
from workflows.reconcile.view.group_view import load
from workflows.services.lease import take_lease


def test_a_former_domain_is_named_by_its_workflow_in_its_own_pool_alone(db):
    world = World()
    mine, other = world.pool(levels=LEVELS, nvlink=True), world.pool(levels=LEVELS, nvlink=True)
    waits, near, far = world.group(pool=mine), world.group(pool=mine), world.group(pool=other)
    for group, uid in ((near, "u-near"), (far, "u-far")):
        ObservedObject.objects.create(
            cluster_id=world.uid,
            kind="ComputeDomain",
            namespace="osmo",
            name=f"osmo-{uid}",
            uid=uid,
            group_uuid=group.pk,
            seen_at=timezone.now(),
        )
    view = load(take_lease(waits.pk))
    found = compute_domain_owners(view, {"n1": "u-near", "n2": "u-far", "n3": "u-foreign"})
    assert [(holding.node, holding.workflow) for holding in found] == [
        ("n1", near.workflow.name),
        ("n2", ANOTHER_WORKFLOW),
        ("n3", ""),
    ]
