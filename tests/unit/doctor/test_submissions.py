"""None lost, none twice: a log of what was sent against the workflows there are."""

import json

import pytest

from doctor.submissions import SubmittedWorkflow, compare_submissions, read_log


def sent(key="k1", status=201, workflow="train-1", **changes):
    return {"key": key, "user": "ann", "pool": "p", "status": status, "workflow": workflow, **changes}


def there(name="train-1", key="k1", **changes):
    return SubmittedWorkflow(**{"name": name, "user": "ann", "pool": "p", "key": key, **changes})


CASES = {
    "accepted once": ([sent()], [there()], []),
    "answered the second time": ([sent(status=0, workflow=None), sent()], [there()], []),
    "never answered, and there": ([sent(status=0, workflow=None)], [there()], []),
    "never answered, and not there": ([sent(status=503, workflow=None)], [], []),
    "refused, then accepted": ([sent(status=429, workflow=None), sent()], [there()], []),
    "accepted without a key": ([sent(key=None)], [there(key="")], []),
    "lost": ([sent()], [], [("lost", "submission")]),
    "accepted without a name": ([sent(workflow=None)], [there()], [("lost", "submission")]),
    "made twice": (
        [sent(), sent(workflow="train-2")],
        [there(), there("train-2", key="")],
        [("doubled", "submission")],
    ),
    "refused, and there": (
        [sent(status=422, workflow=None)],
        [there()],
        [("inconsistent", "refused-submission")],
    ),
    "two that got one": ([sent(), sent(key="k2")], [there()], [("lost", "shared-workflow")]),
    "two without keys that got one": (
        [sent(key=None), sent(key=None)],
        [there(key="")],
        [("lost", "shared-workflow")],
    ),
    "somebody else's": ([sent()], [there(user="bob")], [("inconsistent", "submission")]),
}


@pytest.mark.parametrize(("log", "rows", "want"), CASES.values(), ids=CASES.keys())
def test_a_log_says(log, rows, want):
    lines = [json.dumps(line) for line in log]
    assert [(finding.kind, finding.rule) for finding in compare_submissions(read_log(lines), rows)] == want


@pytest.mark.parametrize(
    "line", ["nonsense", "[]", '{"key": "k"}', '{"user": "a", "pool": "p", "status": "x"}']
)
def test_a_line_that_is_no_submission_is_named(line):
    with pytest.raises(ValueError, match="line 2"):
        read_log([json.dumps(sent()), line])
