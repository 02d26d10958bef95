"""What the command says of gangs that others submitted, on answers of each kind."""

import json

import pytest

NEAREST = {
    "path": ["z1", "r7"], "free": 12, "missing": 4, "free_at": None, "closed": 1,
    "holders": [{"name": "ann/train-3", "namespaces": []}],
}  # fmt: skip
FEASIBILITY = {
    "verdict": "not_now",
    "sentence": "No rack has room for 16 tasks now; r7 lacks 4.",
    "not_examined": [{"code": "claims", "message": "Claims of devices were not looked at."}],
    "sets": [{"path": [{"key": "rack", "group": "default"}], "tasks": 16, "nearest": [NEAREST]}],
}
GROUP = {
    "namespace": "ml", "name": "pg-train-7", "kind": "PodGroup", "owner_kind": "PyTorchJob",
    "owner_name": "train", "queue": "research", "priority": "high", "since": "2026-11-30T06:00:00+00:00",
    "tasks": 16, "gpus": 64, "minimum": 16, "verdict": "not_now", "sentence": FEASIBILITY["sentence"],
    "scheduler_report": "node(s) had\nno \x1b[31mchannel",
}  # fmt: skip
ONE = GROUP | {
    "backend": "kai", "scheduler": "kai", "feasibility": FEASIBILITY,
    "faults": ["Its required level has no preferred one, which KAI never places."],
    "not_examined": [{"code": "gates", "message": "Pods wait for a gate to be removed."}],
}  # fmt: skip
WAITING = {
    "backend": "kai", "scheduler": "kai", "follows_others": True, "problem": "", "count": 2, "omitted": 0,
    "names_shown": True, "groups": [GROUP, GROUP | {"name": "bare", "owner_name": "", "owner_kind": ""}],
    "more_entries": False, "observed_at": "2026-11-30T08:00:00+00:00", "freshness": "fresh",
    "age_seconds": 2.0,
}  # fmt: skip

NEED = "their names need action cluster:Explain on backend kai"
NO_GROUP = (
    "is no group of others: write NAMESPACE/NAME. A workflow of this service is explained without --cluster."
)


@pytest.fixture
def explained(bare, answering):
    """Run ``explain`` on a service with these replies; returns how it ended and what was asked."""

    def run(*words, replies=(WAITING,), status=200):
        service = answering(*((status, {}, json.dumps(reply)) for reply in replies))
        ended = bare("explain", *words, OSMO_URL=service.url, OSMO_TOKEN="t")
        return ended, [path for _, path, _, _ in service.asked]

    return run


def test_what_others_submitted_is_listed_a_line_each(explained):
    ended, asked = explained("--cluster", "kai")
    assert asked == ["/api/cluster/kai/waiting?limit=100&offset=0"]
    heading, titles, *rows = ended.lines
    assert heading == "2 groups of others wait on backend kai, as of 2026-11-30 08:00:00 UTC"
    assert titles.split() == ["GROUP", "OF", "QUEUE", "TASKS", "GPUS", "AGE", "VERDICT", "WHY"]
    cells = [row.split() for row in rows]
    assert [row[:5] for row in cells] == [
        ["ml/pg-train-7", "PyTorchJob/train", "research", "16", "64"],
        ["ml/bare", "PodGroup", "research", "16", "64"],
    ]
    assert rows[0].endswith("not_now  No rack has room for 16 tasks now; r7 lacks 4.")


def test_all_pages_of_a_long_list_are_one(explained):
    first = WAITING | {"more_entries": True, "groups": [GROUP] * 100}
    ended, asked = explained("--cluster", "kai", "-o", "name", replies=(first, WAITING))
    assert asked[1] == "/api/cluster/kai/waiting?limit=100&offset=100"
    assert len(ended.lines) == 102
    assert ended.lines[-1] == "ml/bare"


def test_one_group_is_explained_with_all_that_is_known_of_it(explained):
    ended, asked = explained("--cluster", "kai", "ml/pg-train-7", replies=(ONE,))
    assert asked == ["/api/cluster/kai/group/ml/pg-train-7"]
    heading, *lines = ended.lines
    assert heading == (
        "ml/pg-train-7, PyTorchJob/train, on backend kai: 16 tasks, 64 GPUs, at least 16 together, "
        "queue research, priority high, waits since 2026-11-30 06:00:00 UTC"
    )
    assert lines == [
        "  Its required level has no preferred one, which KAI never places.",
        "  No rack has room for 16 tasks now; r7 lacks 4.",
        "  The scheduler's words: node(s) had no \ufffd[31mchannel",
        "  Not examined: Pods wait for a gate to be removed. Claims of devices were not looked at.",
        "  SET           DOMAIN  ROOM FOR  LACKS  HELD BY      FREE AT",
        "  rack default  z1/r7   12 of 16  4      ann/train-3  -",
    ]
    assert explained("--cluster", "kai", "ml/x", "-o", "name", replies=(ONE,))[0].lines == ["not_now"]
    assert explained("--cluster", "kai", "ml/x", "-o", "json", replies=(ONE,))[0].json == ONE


@pytest.mark.parametrize(
    ("changes", "lines"),
    {
        "without the right": (
            {"count": 3, "names_shown": False, "groups": []},
            [f"3 groups of others wait; {NEED}"],
        ),
        "one without the right": (
            {"count": 1, "names_shown": False, "groups": []},
            ["1 group of others waits; its name needs action cluster:Explain on backend kai"],
        ),
        "nothing waits": (
            {"count": 0, "groups": []},
            ["no group of others waits on backend kai, as of 2026-11-30 08:00:00 UTC"],
        ),
        "more than are kept": (
            {"count": 3, "names_shown": False, "groups": [], "omitted": 2},
            [f"3 groups of others wait (2 more are not kept); {NEED}"],
        ),
    }.values(),
    ids=str,
)
def test_those_without_names_are_counted(explained, changes, lines):
    ended, _ = explained("--cluster", "kai", replies=(WAITING | changes,))
    assert (ended.code, ended.lines, ended.err) == (0, lines, "")


def test_why_not_all_are_known_is_said_beside_the_list(explained):
    problem = {"problem": "They are not followed."}
    ended, _ = explained("--cluster", "kai", replies=(WAITING | problem,))
    assert (ended.code, ended.lines[-1]) == (0, "They are not followed.")
    none, _ = explained("--cluster", "kai", replies=(WAITING | problem | {"count": 0, "groups": []},))
    assert none.lines == ["They are not followed."]


@pytest.mark.parametrize(
    ("words", "answer"),
    {
        "nothing named": (
            [],
            "Which workflow? For what others submitted to a cluster give --cluster BACKEND.",
        ),
        "a group without its cluster": (
            ["ml/x"],
            '"ml/x" is no workflow; for a group of others give --cluster BACKEND.',
        ),
        "a workflow with a cluster": (
            ["--cluster", "kai", "train-3"],
            f'"train-3" {NO_GROUP}',
        ),
        "three parts": (
            ["--cluster", "kai", "a/b/c"],
            f'"a/b/c" {NO_GROUP}',
        ),
    }.values(),
    ids=str,
)
def test_what_cannot_be_meant_is_answered_in_words(explained, words, answer):
    ended, asked = explained(*words)
    assert (ended.code, ended.out, ended.err, asked) == (2, "", f"{answer}\n", [])


def test_a_refusal_is_in_the_words_of_the_service(explained):
    refusal = {"message": "You hold no role that grants cluster:Explain on 'backend/kai'."}
    ended, _ = explained("--cluster", "kai", "ml/x", replies=(refusal,), status=403)
    assert (ended.code, ended.out, ended.err) == (1, "", f"{refusal['message']}\n")


@pytest.mark.parametrize(
    ("line", "reply", "words"),
    [
        ("explain --cluster kai ml/", WAITING, ["ml/bare", "ml/pg-train-7"]),
        ("explain --cluster k", {"backends": [{"name": "kai"}, {"name": "other"}]}, ["kai"]),
        ("explain tr", {"workflows": [{"name": "train-3"}]}, ["train-3"]),
    ],
)
def test_a_shell_completes_clusters_and_what_waits_there(bare, answering, line, reply, words):
    service = answering((200, {}, json.dumps(reply)))
    ended = bare(
        OSMO_URL=service.url,
        OSMO_TOKEN="t",
        _OSMO_TOPOLOGY_COMPLETE="complete_bash",
        COMP_WORDS=f"osmo-topology {line}",
        COMP_CWORD=str(len(line.split())),
    )
    assert ended.lines == words


def test_a_group_with_a_very_long_name_moves_no_other_line(explained):
    groups = [GROUP, GROUP | {"name": "n" * 253}]
    ended, _ = explained("--cluster", "kai", replies=(WAITING | {"groups": groups},))
    _, titles, usual, long = ended.lines
    assert len(titles) < 100
    assert titles.index("OF") == usual.index("PyTorchJob/train")
    assert f"ml/{'n' * 253}" in long
