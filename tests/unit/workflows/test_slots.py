"""Slots of one web process, shared by its users."""

import pytest

from scheduling.errors import Busy
from workflows.logs.slots import Slots
from workflows.metrics import WATCHES


def slots_of(most, most_of_user):
    return Slots(do="watch workflows", requests=WATCHES, most=lambda: most, most_of_user=lambda: most_of_user)


def test_two_users_leave_slots_to_users_without_any():
    slots = slots_of(most=4, most_of_user=2)
    first = [slots.take(user) for user in ("ann", "bob", "ann")]
    with pytest.raises(Busy, match="As many"):
        slots.take("bob")
    slots.take("eve")
    with pytest.raises(Busy, match="As many"):
        slots.take("joe")
    first[0].release()
    slots.take("joe")


def test_a_user_has_a_part_however_many_slots_are_free():
    slots = slots_of(most=1000, most_of_user=2)
    for _ in range(2):
        slots.take("ann")
    with pytest.raises(Busy, match="one user"):
        slots.take("ann")


def test_of_a_single_slot_anybody_takes_it():
    slots = slots_of(most=1, most_of_user=2)
    slots.take("ann").release()
    slots.take("ann")
