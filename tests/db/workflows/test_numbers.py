"""A number is given once, also after its workflow was removed."""

import pytest
from django.contrib.auth.models import User

from tests.builders.submissions import at_once, submission_request
from tests.factories import PoolFactory
from workflows.models import Workflow
from workflows.submission import submit as submission

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture(autouse=True)
def no_broker(settings):
    settings.CELERY_BROKER_URL = "memory://"


@pytest.fixture
def ann():
    PoolFactory(name="h100")
    return User.objects.create_user("ann")


def test_the_number_of_a_removed_workflow_is_not_given_again(ann):
    assert submission.submit(submission_request(ann))["name"] == "train-1"
    Workflow.objects.all().delete()
    assert submission.submit(submission_request(ann))["name"] == "train-2"


def test_numbers_are_given_once_while_workflows_are_removed_at_the_same_moment(ann):
    submission.submit(submission_request(ann))

    def replace_all():
        reply = submission.submit(submission_request(ann))
        Workflow.objects.filter(name=reply["name"]).delete()
        return reply["name"]

    assert sorted(at_once(6, replace_all)) == [f"train-{number}" for number in range(2, 8)]
