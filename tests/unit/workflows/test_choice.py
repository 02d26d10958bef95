"""Choosing a pool keeps the submission to the best one alone: rendered objects are large."""

import gc
import weakref
from datetime import UTC, datetime
from types import SimpleNamespace

from pools.values.freshness import Freshness
from scheduling.errors import InvalidSpec
from scheduling.fit.verdict import Answer, Verdict
from workflows.feasibility.verdict.forecast import Forecast
from workflows.feasibility.verdict.report import FeasibilityReport
from workflows.submission.accepted import AcceptedSubmission
from workflows.submission.choice import choose

NOW = datetime(2026, 1, 1, tzinfo=UTC)


class Rendered:
    """Stands for what was rendered for one pool."""


def report(broken_nodes):
    return FeasibilityReport(
        group="g",
        scheduler="kai",
        tasks=1,
        verdict=Verdict(Answer.NOW, (), tasks=1),
        sentence="It fits now.",
        nodes=1,
        freshness=Freshness(NOW, NOW),
        others_known=True,
        made_at=NOW,
        forecast=Forecast(preferences_met=True, broken_nodes=broken_nodes),
    )


def test_of_pools_that_are_not_chosen_only_the_verdict_is_kept():
    rendered, most = weakref.WeakSet(), []
    gc.freeze()  # only what is made from here on is looked at

    def accept(pool):
        gc.collect()
        most.append(len(rendered))
        objects = Rendered()
        rendered.add(objects)
        if pool.broken is None:
            raise InvalidSpec(f"{pool.name} refuses it.")
        return AcceptedSubmission(
            request=None,
            pool=pool,
            spec=None,
            groups=(),
            objects=(objects,),
            object_bytes=0,
            limits=(),
            feasibility=[report(pool.broken)],
            warnings=[],
        )

    broken = [5, None, 3, 4, 1, 2, None, 1, 6]
    pools = [SimpleNamespace(name=f"p{n}", broken=nodes) for n, nodes in enumerate(broken)]
    accepted = choose(pools, accept)

    assert accepted.pool.name == "p4"
    names = [entry["pool"] for entry in accepted.choice]
    assert names == ["p4", "p7", "p5", "p2", "p3", "p0", "p8", "p1", "p6"]
    assert [entry["chosen"] for entry in accepted.choice] == [True, *[False] * 8]
    assert max(most) <= 2
    gc.collect()
    assert len(rendered) == 1
