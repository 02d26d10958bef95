"""When another order is begun, finished or forgotten."""

import pytest

from workflows.lifecycle.ordering import OrderAction, OrderFacts, next_order_action

WAITING = {"is_proposed": True, "differs": True, "reordering": False, "is_intact": True, "is_bound": False}


@pytest.mark.parametrize(
    ("changes", "want"),
    [
        ({}, OrderAction.BEGIN),
        ({"is_proposed": False}, OrderAction.NONE),
        ({"is_bound": True}, OrderAction.DROP),
        ({"differs": False}, OrderAction.DROP),
        ({"is_intact": False}, OrderAction.WAIT),
        ({"reordering": True}, OrderAction.FINISH),
        ({"reordering": True, "is_bound": True, "is_intact": False}, OrderAction.FINISH),
    ],
)
def test_the_next_action_follows_from_what_was_observed(changes, want):
    assert next_order_action(OrderFacts(**{**WAITING, **changes})) is want
