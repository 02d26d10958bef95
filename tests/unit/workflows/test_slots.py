"""Slots of one web process, shared by its users."""

import pytest

from scheduling.errors import Busy
from workflows.logs.slots import Slots


def test_two_users_leave_slots_to_users_without_any():
    slots = Slots(most=lambda: 4, most_of_user=lambda: 2)
    first = [slots.take(user) for user in ("ann", "bob", "ann")]
    with pytest.raises(Busy, match="As many"):
        slots.take("bob")
    slots.take("eve")
    with pytest.raises(Busy, match="As many"):
        slots.take("joe")
    first[0].release()
    slots.take("joe")


def test_a_user_has_a_part_however_many_slots_are_free():
    slots = Slots(most=lambda: 1000, most_of_user=lambda: 2)
    for _ in range(2):
        slots.take("ann")
    with pytest.raises(Busy, match="one user"):
        slots.take("ann")


def test_of_a_single_slot_anybody_takes_it():
    slots = Slots(most=lambda: 1, most_of_user=lambda: 2)
    slots.take("ann").release()
    slots.take("ann")
