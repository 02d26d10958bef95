"""A user's profile: the pool that commands without one go to."""

from tests.error_shape import assert_error_shape
from tests.factories import PoolFactory


def chosen(client):
    return client.get("/api/profile/settings").json()["profile"]["pool"]


def test_a_user_chooses_a_default_pool(ann):
    PoolFactory(name="training")
    assert chosen(ann) is None
    answer = ann.post("/api/profile/settings", {"pool": "training"}, format="json")
    assert (answer.status_code, answer.json()) == (200, None)
    assert chosen(ann) == "training"


def test_a_pool_that_does_not_exist_is_refused_and_the_choice_stays(ann):
    PoolFactory(name="training")
    ann.post("/api/profile/settings", {"pool": "training"}, format="json")
    body = assert_error_shape(ann.post("/api/profile/settings", {"pool": "trainign"}, format="json"), 404)
    assert "training" in body["message"]
    assert chosen(ann) == "training"


def test_the_profile_names_the_pools_one_may_use(ann):
    PoolFactory(name="b")
    PoolFactory(name="a")
    answer = ann.get("/api/profile/settings").json()
    assert answer["pools"] == ["a", "b"]
    assert answer["profile"]["username"] == "ann"
