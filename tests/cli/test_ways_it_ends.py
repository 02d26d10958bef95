"""How the command ends when it is not understood, not answered or told to come back; and as whom it calls."""

import json
import os
import re
import signal
import subprocess
import sys
import time

import pytest
import yaml

from localcluster.directories import CHECKOUT
from osmo_topology_cli import tables
from osmo_topology_cli.login import Login, find_login
from osmo_topology_cli.show import aligned
from osmo_topology_cli.terminal import cut
from osmo_topology_client.errors import Misused
from osmo_topology_client.service import MOST_WAITING, PAUSES
from tests.builders.replies import POOL, POOLS, jwt

BUSY = json.dumps({"message": "Too many at once.", "error_code": "USER", "details": []})


def test_it_comes_back_when_the_service_asks_it_to(bare, answering):
    service = answering((429, {"Retry-After": "1"}, BUSY), (503, {"Retry-After": "1"}, BUSY), POOLS)
    ended = bare("--url", service.url, "--token", "t", "pools", "-o", "json")
    assert (ended.code, ended.json["pools"]["training"]) == (0, POOL)
    assert ended.err.count("The service asks to wait 1 s: Too many at once.") == 2


def test_an_answer_ends_it_with_one_sentence_and_a_code(bare, answering):
    broken = json.dumps({"message": "Internal server error", "request_id": "r7"})
    cases = {
        "longer than it waits": (
            (429, {"Retry-After": f"{MOST_WAITING + 1:.0f}"}, BUSY),
            75,
            "Too many at once.",
        ),
        "a gateway's page": ((502, {}, "<html>Bad\n gateway</html>"), 10, "502: <html>Bad gateway</html>"),
        "a page for people": ((200, {}, "<html>Hello</html>"), 10, "did not answer with JSON"),
        "another address": ((301, {"Location": "https://new.example"}, ""), 10, "https://new.example"),
        "a wrong token": ((401, {}, json.dumps({"message": "Invalid token."})), 2, "Invalid token."),
        "a fault of the service": ((500, {}, broken), 10, "Internal server error (request r7)"),
    }
    begun = {
        what: bare.start("pools", OSMO_URL=answering(answer).url, OSMO_TOKEN="t")
        for what, (answer, _, _) in cases.items()
    }
    for what, (_, code, said) in cases.items():
        ended = bare.end(begun[what])
        assert (ended.code, ended.out) == (code, ""), what
        assert said in ended.err
        assert len(ended.err.splitlines()) == 1, what


def test_a_submission_that_is_sent_again_is_the_same_one(bare, answering):
    page = "http://o/ui/workflows/w-1"
    warnings = ["Slow.", "Write:\ngroups:\n- name: a\x1b"]
    reply = {"name": "w-1", "overview": page, "warnings": warnings, "constraints": []}
    service = answering((503, {"Retry-After": "1"}, BUSY), (200, {}, json.dumps(reply)))
    ended = bare("submit", "-", "--pool", "a/b", given="x", OSMO_URL=service.url, OSMO_TOKEN="t")
    assert (ended.code, ended.lines) == (
        0,
        ["w-1 is accepted", f"Its page: {page}", "To follow it: osmo-topology watch w-1"],
    )
    assert "warning: Slow.\nwarning: Write:\ngroups:\n- name: a\ufffd\n" in ended.err
    (first, again) = service.asked
    assert first[:2] == ("POST", "/api/pool/a%2Fb/workflow")
    assert first[2]["Idempotency-Key"] == again[2]["Idempotency-Key"]
    assert first[3] == again[3]


def test_a_request_that_cannot_be_sent_is_told_and_ends_with_2(bare):
    login = ["--url", "http://x", "--token", "t"]
    cases = [
        (["pools"], "Which service?"),
        (["--url", "http://127.0.0.1:1", "pools"], "Who are you"),
        (["--url", "127.0.0.1", "--token", "t", "pools"], "no address of a service"),
        ([*login, "--user", "u", "pools"], "two logins"),
        ([*login, "submit", "nowhere.yaml"], "nowhere.yaml cannot be read"),
        (["pols"], "pools"),
        (["list", "--limit", "0"], "--limit"),
        (["pools", "-o", "xml"], "'table', 'wide', 'json', 'yaml', 'name'"),
        (["watch", "w-1", "-o", "wide"], "'table', 'json'"),
        ([*login, "what-if", "p"], "What would be different?"),
        (
            [*login, "what-if", "p", "--drain", "r1"],
            '--drain takes name=value, such as zone=a,rack=r1, and not "r1"',
        ),
        ([*login, "what-if", "p", "--add-nodes", "node-1"], "--add-nodes takes a number and a node"),
        ([*login, "config", "show", "POLL"], '"POLL" is no type of configuration; there are POOL,'),
        ([*login, "config", "rollback", "3"], 'such as POOL:3, and not "3"'),
        ([*login, "config", "diff", "POOL:1", "BACKEND:2"], "Two revisions of one type"),
        ([*login, "pool", "default", "a", "--none"], "two wishes"),
    ]
    for (_, said), process in [(case, bare.start(*case[0])) for case in cases]:
        ended = bare.end(process)
        assert (ended.code, ended.out) == (2, ""), said
        assert said in ended.err
        assert "Traceback" not in ended.err


def test_a_value_that_no_request_can_hold_is_named_in_one_sentence_and_ends_with_2(bare):
    """Arguments and variables are bytes: a shell passes on what is no UTF-8, and line breaks."""
    url, me = ["--url", "http://127.0.0.1:1"], ["--token", "t"]
    no_utf_8 = b"a\xff"
    cases = [
        ([*url, "list"], {"OSMO_TOKEN": "a\nb"}, "OSMO_TOKEN cannot be sent: it contains a line break."),
        ([*url, "list"], {"OSMO_TOKEN": no_utf_8}, "OSMO_TOKEN cannot be sent: it is not UTF-8."),
        (
            [*url, "list"],
            {"OSMO_TOKEN": "a\x01"},
            "OSMO_TOKEN cannot be sent: it contains a control character.",
        ),
        (
            [*url, "list"],
            {"OSMO_TOKEN": "\u674e"},
            'OSMO_TOKEN cannot be sent: it contains "\u674e", which a header cannot hold.',
        ),
        ([*url, "login"], {"OSMO_TOKEN": no_utf_8}, "OSMO_TOKEN cannot be sent: it is not UTF-8."),
        ([*url, "--token", "a\rb", "list"], {}, "--token cannot be sent: it contains a line break."),
        ([*url, "--user", "a\nb", "list"], {}, "--user cannot be sent: it contains a line break."),
        ([*url, "--user", no_utf_8, "login"], {}, "--user cannot be sent: it is not UTF-8."),
        ([*me, "--url", b"http://a\xff", "list"], {}, '"http://a\\xff" cannot be sent: it is not UTF-8.'),
        ([*me, "list"], {"OSMO_URL": b"http://a\xff"}, '"http://a\\xff" cannot be sent: it is not UTF-8.'),
    ]
    sentence = '"a\\xff" cannot be sent: it is not UTF-8.'
    commands = ["explain", "topology", "list --name", "cancel", "pool default", "what-if p --without"]
    cases += [([*url, *me, *words.split(), no_utf_8], {}, sentence) for words in commands]
    for (_, _, want), process in [(case, bare.start(*case[0], **case[1])) for case in cases]:
        ended = bare.end(process)
        assert (ended.code, ended.out, ended.err) == (2, "", f"{want}\n")


def test_a_stored_login_that_no_header_can_hold_is_told(tmp_path):
    there = stored(tmp_path, url="http://o", dev_login={"username": "a\nb"})
    with pytest.raises(Misused, match=r"login in .* cannot be sent: it contains a line break"):
        found(there)


def test_a_document_that_is_none_is_told_with_its_reason(bare, tmp_path):
    login = ["--url", "http://x", "--token", "t"]
    for text, said in (("{", "is no YAML"), ("[a]", "is no document of fields with values")):
        (tmp_path / "nodes.yaml").write_text(text)
        ended = bare(*login, "what-if", "p", "--file", str(tmp_path / "nodes.yaml"))
        assert (ended.code, ended.out, len(ended.err.splitlines())) == (2, "", 1)
        assert said in ended.err


def test_the_version_needs_no_service_and_no_login(bare):
    ended = bare("--version")
    assert (ended.code, ended.err) == (0, "")
    assert re.fullmatch(r"osmo-topology \d+\.\d+\.\d+\n", ended.out)


def test_another_service_that_answers_with_json_is_no_traceback(bare, answering):
    ended = bare("pools", OSMO_URL=answering((200, {}, '{"pool": 1}')).url, OSMO_TOKEN="t")
    assert (ended.code, ended.out) == (10, "")
    assert ended.err == "The answer is not that of this service: KeyError 'node_sets'.\n"


def test_a_list_is_shown_in_each_format(bare, answering):
    login = {"OSMO_URL": answering(POOLS).url, "OSMO_TOKEN": "t"}

    def shown(output):
        ended = bare("pools", "-o", output, **login)
        assert (ended.code, ended.err) == (0, "")
        return ended.out

    assert shown("name") == "training\n"
    assert yaml.safe_load(shown("yaml")) == json.loads(shown("json")) == json.loads(POOLS[2])
    narrow, wide = (re.split(r"\s{2,}", shown(output).splitlines()[0]) for output in ("table", "wide"))
    free = ["NODES FREE", "GPUS FREE", "WAITING", "FITS NOW"]
    assert narrow == ["POOL", "STATUS", *free, "NVLINK", "TOPOLOGY KEYS", "PLATFORMS", "DESCRIPTION"]
    assert set(wide) - set(narrow) == {"DEFAULT TOPOLOGY", "BACKEND", "MAX TIME"}


def test_an_error_as_yaml_is_the_services_own(bare, answering):
    body = {"message": "Refused.", "error_code": "USER", "details": []}
    login = {"OSMO_URL": answering((400, {}, json.dumps(body))).url, "OSMO_TOKEN": "t"}
    ended = bare("pools", "-o", "yaml", **login)
    assert (ended.code, ended.out, yaml.safe_load(ended.err)) == (1, "", body)


def test_a_module_that_no_command_needs_is_not_imported(bare, answering):
    """The command begins quickly: HTTP, tables for terminals and YAML are imported by those that use them."""
    login = {"OSMO_URL": answering(POOLS).url, "OSMO_TOKEN": "t"}
    for words, needless in (
        (["--version"], {"requests", "rich", "typer", "yaml"}),
        (["pools"], {"rich", "yaml"}),
        (["pools", "-o", "json"], {"rich", "yaml"}),
    ):
        code = f"import sys, runpy; sys.argv = ['osmo-topology', *{words!r}]; sys.exit = lambda *_: None\n"
        code += "from osmo_topology_cli.start import main; main()\n"
        code += f"print(sorted({needless!r} & set(sys.modules)), file=sys.stderr)"
        begun = [sys.executable, "-c", code]
        ended = subprocess.run(
            begun, env=bare.environment | login, cwd=CHECKOUT, capture_output=True, text=True, check=False
        )
        assert ended.stderr == "[]\n", words


def test_nobody_there_is_one_plain_sentence(bare):
    ended = bare("--url", "http://127.0.0.1:1", "--token", "t", "pools")
    assert (ended.code, ended.err) == (10, "http://127.0.0.1:1 cannot be reached: Connection refused\n")
    assert sum(PAUSES) < 5


def test_a_password_in_netrc_is_not_sent_in_place_of_the_token(bare, answering, tmp_path):
    (tmp_path / ".netrc").write_text("machine 127.0.0.1 login somebody password secret\n")
    service = answering(POOLS)
    assert bare("pools", OSMO_URL=service.url, OSMO_TOKEN="mine").code == 0
    assert service.asked[0][2]["Authorization"] == "Bearer mine"


def stored(folder, **content):
    (folder / "login.yaml").write_text(json.dumps(content))
    return {"OSMO_CONFIG_FILE_DIR": str(folder)}


def found(environment, *, url="", token="", user=""):
    return find_login(url=url, token=token, user=user, environment=environment)


def test_the_login_of_osmo_is_used_for_its_own_address_and_no_other(tmp_path):
    there = stored(tmp_path, url="https://osmo.example/", dev_login={"username": "ann"}, token_login=None)
    assert found(there) == Login(url="https://osmo.example", user="ann")
    assert found(there | {"OSMO_TOKEN": "t"}) == Login(url="https://osmo.example", bearer="t")
    assert found(there | {"OSMO_TOKEN": "t"}, user="bob") == Login(url="https://osmo.example", user="bob")
    for elsewhere in ({"url": "https://other.example"}, {"url": "http://osmo.example"}):
        with pytest.raises(Misused, match="Who are you"):
            found(there, **elsewhere)


def test_a_login_that_lasts_is_used_and_one_that_has_ended_is_renewed_or_told(tmp_path):
    lasting, ended = jwt(time.time() + 600), jwt(time.time() - 1)
    for token, osmo, want in (
        (lasting, True, Login(url="http://o", bearer=lasting)),
        (ended, True, Login(url="http://o", renewing="personal")),
        (lasting, False, Login(url="http://o", bearer=lasting)),
        ("no.jwt", True, Login(url="http://o", renewing="personal")),
    ):
        login = {"id_token": token, "refresh_token": "personal"}
        assert found(stored(tmp_path, url="http://o", osmo_token=osmo, token_login=login)) == want
    for broken in ({"token_login": {"id_token": ended, "refresh_token": "idp's"}}, {}):
        with pytest.raises(Misused, match="expired or holds none"):
            found(stored(tmp_path, url="http://o", osmo_token=False, **broken))
    (tmp_path / "login.yaml").write_text("[")
    with pytest.raises(Misused, match="cannot be read"):
        found({"OSMO_CONFIG_FILE_DIR": str(tmp_path)})


def test_a_user_who_is_logged_in_with_osmo_needs_nothing(bare, running_service, tmp_path):
    url, token = running_service["api_url"], running_service["token"]
    renewed = stored(
        tmp_path, url=url, osmo_token=True, token_login={"id_token": jwt(0), "refresh_token": token}
    )
    assert bare("pools", **renewed).code == 0
    assert bare("pools", **stored(tmp_path, url=url, dev_login={"username": "ann"})).code in (0, 1)


def drawn(bare, *words, columns, **environment):
    """What the command shows on a terminal of so many columns."""
    ours, theirs = os.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "osmo_topology_cli", *words],
        cwd=CHECKOUT,
        env=bare.environment | {"TERM": "xterm-256color", "COLUMNS": str(columns)} | environment,
        stdin=subprocess.DEVNULL,
        stdout=theirs,
    )
    os.close(theirs)
    assert process.wait(200) == 0
    shown = os.read(ours, 65536).decode().replace("\r\n", "\n")
    os.close(ours)
    return shown


def test_a_terminal_however_narrow_shows_one_line_a_row_and_colours_only_where_wanted(bare, answering):
    login = {"OSMO_URL": answering(POOLS).url, "OSMO_TOKEN": "t"}
    wide = drawn(bare, "pools", columns=200, **login)
    assert "\x1b[32mONLINE" in wide
    assert "The quick racks in the new hall" in wide
    for columns, shown in ((80, {"training", "ONLINE", "1 of 4", "4 of 16"}), (30, {"training", "ONLINE"})):
        plain = drawn(bare, "pools", columns=columns, NO_COLOR="1", **login)
        text = re.sub(r"\x1b\[1m|\x1b\[0m", "", plain)  # bold is no colour
        assert "\x1b" not in text
        titles, row = text.splitlines()
        assert max(len(titles), len(row)) <= columns
        assert shown <= set(re.split(r"\s{2,}", row))


@pytest.mark.parametrize(
    ("text", "width", "want"),
    [
        ("pretrain-llama-405b-fp8-seqlen8k-17", 20, "pretrain-llam…n8k-17"),
        ("No rack has room for 18 nodes", 12, "No rack has…"),
        ("short", 12, "short"),
    ],
)
def test_a_name_is_cut_in_its_middle_and_a_sentence_at_its_end(text, width, want):
    assert cut(text, width) == want


def test_a_sequence_that_would_steer_a_terminal_is_made_harmless():
    (row,) = aligned([["\x1b[2Jgone", "two\nlines", "Zürich", "\u202eback"]])
    assert row == "\ufffd[2Jgone  two lines  Zürich  \ufffdback"


STEERING = "\x1b]0;owned\x07\x1b[31mred\x1b[0m\ta\rb\u009b2J\u202eback\nnext\n"


@pytest.mark.parametrize(
    "command", [("events", "w"), ("logs", "w"), ("logs", "w", "--errors"), ("spec", "w")]
)
def test_a_text_of_the_service_steers_no_terminal(bare, answering, command):
    login = {"OSMO_URL": answering((200, {}, STEERING)).url, "OSMO_TOKEN": "t"}
    shown = drawn(bare, *command, columns=80, **login)
    assert shown == "\ufffd]0;owned\ufffdred   a b\ufffd2J\ufffdback\nnext\n"
    assert bare(*command, **login).out == STEERING.replace("\r", "\n"), "as it is, for a file or a program"


@pytest.mark.parametrize("form", ["json", "yaml"])
def test_a_value_for_programs_steers_no_terminal_and_loses_nothing(bare, answering, form):
    written = json.loads(POOLS[2])
    written["node_sets"][0]["pools"][0]["description"] = "\u202eback\x7f\u009b"
    login = {"OSMO_URL": answering((*POOLS[:2], json.dumps(written))).url, "OSMO_TOKEN": "t"}
    shown = bare("pools", "-o", form, **login).out
    assert shown.replace("\n", "").isprintable()
    assert yaml.safe_load(shown) == written


def test_a_reader_that_has_seen_enough_is_no_trouble(bare, answering):
    login = {"OSMO_URL": answering(POOLS).url, "OSMO_TOKEN": "t"}
    with bare.start("pools", "-o", "json", **login) as process:
        process.stdout.close()
        assert "Traceback" not in process.stderr.read()


def test_an_interrupted_watch_does_not_show_where_it_was(bare, answering):
    reply = {"name": "w-1", "status": "RUNNING", "groups": [], "more_entries": False}
    login = {"OSMO_URL": answering((200, {}, json.dumps(reply))).url, "OSMO_TOKEN": "t"}
    process = bare.start("watch", "w-1", **login)
    assert process.stdout.readline().endswith(" w-1: RUNNING\n")
    process.send_signal(signal.SIGINT)
    ended = bare.end(process)
    assert (ended.code, ended.out, ended.err) == (130, "", "")


@pytest.mark.parametrize(
    ("seconds", "want"),
    [(None, "-"), (0.4, "0s"), (61, "1m 1s"), (3600, "1h"), (90061.0, "1d 1h")],
)
def test_a_duration_is_said_with_its_largest_units(seconds, want):
    assert tables.seconds(seconds) == want


def test_a_preflight_shows_what_to_do_and_ends_with_3_where_a_check_failed(bare, answering):
    def check(status, to_do=""):
        return {"check": "broker", "status": status, "message": "It is so.", "to_do": to_do}

    def report(status, *checks):
        counts = {"passed": 1, "failed": len(checks), "unknown": 0}
        cluster = {"backend": "east", "checks": list(checks)}
        return {"status": status, "counts": counts, "installation": [check("passed")], "backends": [cluster]}

    good, bad = report("passed"), report("failed", check("failed", "Start Redis."))
    service = answering((200, {}, json.dumps(bad)), (200, {}, json.dumps(good)), (200, {}, json.dumps(bad)))
    login = {"OSMO_URL": service.url, "OSMO_TOKEN": "t"}
    ended = bare.end(bare.start("preflight", "--backend", "east", **login))
    assert (ended.code, ended.err) == (3, "")
    assert ended.lines == [
        "Installation",
        "  passed   broker: It is so.",
        "Backend east",
        "  failed   broker: It is so.",
        "           Start Redis.",
        "1 passed, 1 failed, 0 unknown",
    ]
    assert bare("preflight", **login).code == 0
    assert bare("preflight", "-o", "name", **login).lines == ["broker"]
    assert [call[1] for call in service.asked] == [
        "/api/preflight?backend=east",
        "/api/preflight",
        "/api/preflight",
    ]
