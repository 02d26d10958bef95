"""Gangs that are kept as rendered are those that rendering anew gives."""

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from scheduling.gang.gang_form import USUAL_FORM
from tests.factories import LEVELS
from tests.worker.world import fresh, statuses
from web.recent_values import RecentValues
from workflows.manifests.group import Renderer
from workflows.models import TaskGroup
from workflows.reconcile.view import rendered_gangs
from workflows.reconcile.view.group_view import load
from workflows.selectors import group_values
from workflows.services.lease import release, take_lease
from workflows.services.notify import mark_due


def view_of(group):
    mark_due([group.pk])
    lease = take_lease(group.pk) or pytest.fail("the group has a lease")
    release(lease, failures=0)
    return load(lease)


def anew(view):
    """The gangs rendered from all rows as they are now."""
    return Renderer(group_values(fresh(view.row), view.placement)).gangs


def as_text(gangs):
    return {
        number: (gang.pod_groups, {name: parts.labels for name, parts in gang.pods.items()}, gang.constraints)
        for number, gang in gangs.items()
    }


def queries_of_gangs(view):
    with CaptureQueriesContext(connection) as queries:
        assert view.gangs
    return len(queries)


@pytest.fixture
def gang(world):
    """A running gang of four tasks under KAI, of which the first leads."""
    pool = world.pool(levels=LEVELS)
    group = world.group(pods=4, pool=pool)
    world.settle(group)
    assert set(statuses(group)) == {"RUNNING"}
    return group


def test_a_gang_is_rendered_once_while_nothing_of_its_source_changes(world, gang):
    assert queries_of_gangs(view_of(gang)) > 0
    assert queries_of_gangs(view_of(gang)) == 0
    world.finish(gang, tasks=[gang.tasks.order_by("position").last().name])
    world.settle(gang)
    view = view_of(gang)
    assert queries_of_gangs(view) == 0
    assert as_text(view.gangs) == as_text(anew(view))


@pytest.mark.parametrize(
    "change",
    [{"form": {**USUAL_FORM.to_json(), "preference_levels": 1}}, {"generation": 1}, {"attempt_number": 2}],
    ids=lambda change: next(iter(change)),
)
def test_a_change_of_the_row_renders_it_anew(gang, change):
    assert view_of(gang).gangs
    TaskGroup.objects.filter(pk=gang.pk).update(**change)
    view = view_of(gang)
    assert queries_of_gangs(view) > 0
    assert as_text(view.gangs) == as_text(anew(view))


def test_a_new_try_renders_it_anew(gang):
    assert view_of(gang).gangs
    old = gang.tasks.order_by("position").last()
    gang.tasks.filter(pk=old.pk).update(latest=False)
    old.pk, old.retry_id, old.generation, old.latest = None, 1, 1, True
    old.save()
    view = view_of(gang)
    assert set(view.gangs) == {0, 1}
    assert as_text(view.gangs) == as_text(anew(view))


def test_those_used_longest_ago_are_dropped(gang, monkeypatch):
    monkeypatch.setattr(rendered_gangs, "rendered_gangs", RecentValues(most_parts=8))
    rendered = []
    source = rendered_gangs.GangSource(
        placement=view_of(gang).placement,
        attempt_number=1,
        generation=0,
        form=USUAL_FORM,
        tries=(1, 2, 3, 4),
    )

    def get(name):
        return rendered_gangs.gangs_of(name, source, render=lambda: rendered.append(name) or {})

    for name in ("a", "b", "a", "c", "a", "b"):
        get(name)
    assert rendered == ["a", "b", "c", "b"]
