"""Arguments and variables as containers get them: what Kubernetes replaces, and what Linux cannot start."""

import pytest

from tests.factories import LEVELS, PoolFactory
from workflows.admission.final_texts import MOST_BYTES

pytestmark = pytest.mark.django_db

DOCUMENT = """\
workflow:
  name: train
  tasks:
    - name: one
      image: busybox
      command: [bash, -c]
"""


@pytest.fixture
def validate(api):
    PoolFactory(name="h100", levels=LEVELS)

    def post(lines, query=""):
        file = DOCUMENT + "".join(f"      {line}\n" for line in lines.splitlines())
        address = f"/api/pool/h100/workflow?validation_only=True{query}"
        return api.post(address, {"file": file}, format="json")

    return post


def replaced(answer):
    assert answer.status_code == 200, answer.json()
    return [warning for warning in answer.json()["warnings"] if "Kubernetes replaces" in warning]


CHANGED = {
    "the id of a shell": ("args: [echo $$]", 'args[0]: Kubernetes replaces "$$" by "$". Write "$$$$" to'),
    "a command with the name of a variable": (
        "environment: {date: now}\nargs: [echo $(date)]",
        'args[0]: Kubernetes replaces "$(date)" by the value of the variable date. Write "$$(date)"',
    ),
    "a variable of a variable": ("environment: {A: 1, B: $(A)}", 'environment.B: Kubernetes replaces "$(A)"'),
    "a key of a Secret": (
        "credentials: {token: {TOKEN: key}}\nargs: [$(TOKEN)]", "by the value of the variable TOKEN",
    ),
}  # fmt: skip


@pytest.mark.parametrize(("lines", "want"), CHANGED.values(), ids=CHANGED)
def test_what_kubernetes_replaces_is_a_warning_with_its_line(validate, lines, want):
    (warning,) = replaced(validate(lines))
    assert warning.startswith(f"Line {6 + lines.count(chr(10)) + 1}: workflow.tasks[0].")
    assert want in warning


KEPT = {
    "a command of a shell": "args: ['echo $(date) $(( 1 + 1 )) $HOME ${HOME} $1']",
    "a variable of the service, which nobody writes without meaning it": "args: [$(OSMO_RANK)]",
    "a variable that stands below": "environment: {A: $(B), B: 1}",
    "an open parenthesis": "environment: {A: 1}\nargs: [echo $(A]",
    "a secret that stands below": "environment: {A: $(TOKEN)}\ncredentials: {token: {TOKEN: key}}",
}


@pytest.mark.parametrize("lines", KEPT.values(), ids=KEPT)
def test_what_kubernetes_leaves_alone_is_no_warning(validate, lines):
    assert replaced(validate(lines)) == []


def test_variables_of_the_request_are_replaced_too(validate):
    (warning,) = replaced(validate("environment: {A: 1}", "&env_vars=B=$(A)"))
    assert warning.startswith('env_vars.B: Kubernetes replaces "$(A)" by')


def test_the_same_reference_in_several_places_is_one_warning(validate):
    (warning,) = replaced(validate("args: [$$, $$]"))
    assert "args[0] and 1 other place: Kubernetes replaces" in warning


LONG = {
    "an argument": ("args: ['{}']", MOST_BYTES, "args[0]"),
    "a variable": ("environment: {{A: '{}'}}", MOST_BYTES - 2, "environment.A"),
}


@pytest.mark.parametrize(("line", "most", "path"), LONG.values(), ids=LONG)
def test_a_text_with_which_linux_starts_no_program_is_refused(validate, line, most, path):
    assert validate(line.format("x" * most)).status_code == 200
    answer = validate(line.format("x" * (most - 1) + "é"))
    assert answer.status_code == 400
    details = [d for d in answer.json()["details"] if d["code"] == "too_long"]
    assert [(d["path"], d["line"]) for d in details] == [(f"workflow.tasks[0].{path}", 7)]


def test_a_variable_that_others_make_long_is_refused_without_its_value(validate):
    doubled = ", ".join(f"V{i}: $(V{i - 1})$(V{i - 1})" for i in range(1, 60))
    answer = validate(f"environment: {{V0: {'x' * 1000}, {doubled}}}")
    assert answer.status_code == 400
    details = answer.json()["details"]
    assert details[0]["path"] == "workflow.tasks[0].environment.V8"
    assert {d["code"] for d in details} == {"too_long"}
