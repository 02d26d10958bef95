"""Each command of OSMO's client gets from this service what it needs, and ends as it should."""

import json

import pytest

from tests.answers import content_of
from tests.contract.cases import HEADERS, Step, address, cases, filled, found
from tests.contract.client import handle_response, zoned_times
from tests.contract.shapes import faults


def _parameter(case):
    """A case, expected to fail as long as what it waits for is not there, and to be unmarked then."""
    marks = [pytest.mark.xfail(reason=f"waits for {case.waits_for}", strict=True)] if case.waits_for else []
    return pytest.param(case, id=f"{case.file}: {case.about}", marks=marks)


@pytest.mark.parametrize("case", [_parameter(case) for case in cases()])
def test_a_command_ends_as_its_users_expect(case, service, prepare):
    known = prepare(case.given)
    for number, step in enumerate(case.steps, start=1):
        answer = send(service, step, case, known)
        body = content_of(answer)
        where = f"request {number}, {step.method} {step.path}: "
        assert answer.status_code == step.status, where + body.decode()
        outcome = handle_response(
            answer.status_code, body, streamed=step.lines is not None, submits=step.submits
        )
        assert outcome.exit == step.exit, where + outcome.printed
        assert list(faults(outcome.printed, f"~ {filled(step.prints, known)}", "printed")) == [], where
        for name, shape in step.answer_headers.items():
            assert list(faults(answer.headers.get(name), shape, name)) == [], where
        if step.lines is not None:
            assert answer["Content-Type"].startswith("text/plain"), where
            assert list(faults(body.decode(), f"~ {filled(step.lines, known)}")) == [], where
            continue
        value = json.loads(body)
        assert zoned_times(value) == [], where
        assert list(faults(value, filled(step.reply, known))) == [], where
        known |= {name: str(found(value, place)) for name, place in step.capture.items()}


def send(service, step: Step, case, known):
    """Send a request as the client does: its headers, its content type even without a body."""
    login = {"x-osmo-user": case.user}
    if case.login == "token":
        login = {"Authorization": f"Bearer {known['jwt']}"} if "jwt" in known else {}
    headers = {
        name: value for name, value in {**HEADERS, **login, **step.headers}.items() if value is not None
    }
    data = b"" if step.body is None else json.dumps(filled(step.body, known)).encode()
    return service.generic(
        step.method,
        f"http://testserver{address(step, known)}",
        data,
        content_type="application/json",
        headers={"Content-Type": "application/json", **filled(headers, known)},
    )
