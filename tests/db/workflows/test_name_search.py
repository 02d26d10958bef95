"""A search for part of a workflow's name finds what the name contains, by the index."""

import pytest

from tests.factories import PoolFactory, WorkflowFactory
from workflows.models import Workflow
from workflows.name_search import name_contains

pytestmark = pytest.mark.django_db

NAMES = ("train", "Train-70B", "a", "ab", "aab", "under_score", "x-1-2-3", "eval_0-0-0", "strain-train-rain")
TEXTS = (
    "train", "TRAIN", "rain-", "70b", "a", "b", "aa", "ab", "-1", "1-2-3-1", "_", "r_s", "0-0", "n-train-r",
    "trainrain", "z", "zz", "n-1", "x-1-2-3-1", "rai%", "", " ", "é", "'", "\\", "a b", "a'b",
)  # fmt: skip


@pytest.mark.parametrize("text", [text for text in TEXTS if text])
def test_it_finds_the_names_that_contain_the_text_in_whatever_case(text):
    pool = PoolFactory()
    for name in NAMES:
        WorkflowFactory(pool=pool, base_name=name)
    every = Workflow.objects.values_list("name", flat=True)
    found = set(Workflow.objects.filter(name_contains(text)).values_list("name", flat=True))
    assert found == {name for name in every if text.lower() in name.lower()}
