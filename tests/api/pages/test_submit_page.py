"""Writing a workflow in the browser: checked, refused with the lines at fault, submitted once."""

import html
import re
from urllib.parse import urlencode

import pytest
from django.test import Client

from tests.api.pages.reading import text
from tests.factories import LEVELS, NodeFactory, PoolFactory
from workflows.models import Workflow

pytestmark = pytest.mark.django_db

ADDRESS = "/ui/pools/h100/submit"


@pytest.fixture
def pool():
    pool = PoolFactory(name="h100", levels=LEVELS[:2])
    for name in ("a", "b"):
        labels = {level.label: f"{level.key}-1" for level in LEVELS}
        NodeFactory(cluster=pool.backend.cluster, name=name, labels=labels)
    return pool


def send(client, said):
    """Post a form as a browser does."""
    return client.post(ADDRESS, urlencode(said), content_type="application/x-www-form-urlencoded")


def written(page):
    """What stands in the form."""
    found = re.search(r"<textarea[^>]*>\n(.*?)</textarea>", page.content.decode(), re.DOTALL)
    return html.unescape(found[1])


def key(page):
    return re.search(r'name="key" value="(\w+)"', page.content.decode())[1]


def test_the_spec_that_the_form_offers_is_checked_and_submitted_as_it_stands(browser, pool):
    form = browser.get(ADDRESS)
    checked = send(browser, {"file": written(form), "do": "check"})
    assert checked.status_code == 200
    assert "It would be accepted Group train : It fits now: there is room for all 2 tasks." in text(checked)
    assert Workflow.objects.count() == 0
    sent = send(
        browser, {"file": written(checked).replace("\n", "\r\n"), "do": "submit", "key": key(checked)}
    )
    workflow = Workflow.objects.get()
    assert (sent.status_code, sent["Location"]) == (303, f"/ui/workflows/{workflow.name}")
    assert (workflow.submitted_by, workflow.spec) == ("ann", written(form))


def test_a_form_that_is_sent_twice_submits_once(browser, pool):
    form = browser.get(ADDRESS)
    said = {"file": written(form), "do": "submit", "key": key(form)}
    assert send(browser, said)["Location"] == send(browser, said)["Location"]
    assert Workflow.objects.count() == 1


@pytest.mark.parametrize("do", ["check", "submit"])
def test_faults_are_told_with_their_lines_and_what_was_written_stays(browser, pool, do):
    wrong = written(browser.get(ADDRESS)).replace("key: rack", "key: rak").replace("cpu:", "cpus:")
    page = send(browser, {"file": wrong, "do": do})
    assert page.status_code == 400
    assert written(page) == wrong
    assert "Not accepted: 2 faults" in text(page)
    assert re.search(r"line \d+, column \d+ : workflow\.resources\.shard\.topology\[0\]\.key : ", text(page))
    assert Workflow.objects.count() == 0


def test_a_spec_that_can_never_be_placed_is_submitted_only_if_it_is_said_so(browser, pool):
    pool.infeasible = "refuse"
    pool.save()
    large = written(browser.get(ADDRESS)).replace("gpu: 8", "gpu: 64")
    refused = send(browser, {"file": large, "do": "submit", "key": "k1"})
    assert (refused.status_code, Workflow.objects.count()) == (400, 0)
    assert "Submit it although" in text(refused)
    forced = send(browser, {"file": large, "do": "submit", "key": "k2", "force_infeasible": "true"})
    assert (forced.status_code, Workflow.objects.count()) == (303, 1)


@pytest.fixture
def empty_pool():
    """A pool whose only node is too small for what the form offers."""
    small = PoolFactory(name="small", levels=LEVELS[:2])
    labels = {level.label: f"{level.key}-1" for level in LEVELS}
    NodeFactory(cluster=small.backend.cluster, name="s", labels=labels)
    return small


def rows(page):
    """The pools of the table, each with its other columns as text."""
    content = page.content.decode()
    table = re.search(r"<caption>Pools, the best first</caption>.*?</table>", content, re.DOTALL)
    parts = re.findall(r"<tr><th scope=\"row\">(.*?)</th>(.*?)</tr>", table[0], re.DOTALL)
    return {re.sub(r"<.*?>", "", name): re.sub(r"<.*?>", " ", more).split() for name, more in parts}


@pytest.mark.parametrize("named", ["small,h100", "any", " small , h100 "])
def test_the_best_of_several_pools_is_shown_with_all_verdicts_and_taken(browser, pool, empty_pool, named):
    spec = written(browser.get(ADDRESS))
    checked = send(browser, {"file": spec, "do": "check", "pools": named})
    assert checked.status_code == 200
    assert rows(checked)["h100 (chosen)"][:2] == ["yes", "now"]
    assert rows(checked)["small"][:2] == ["yes", "never"]
    sent = send(browser, {"file": spec, "do": "submit", "pools": named, "key": key(checked)})
    assert sent.status_code == 303
    assert Workflow.objects.get().pool_name == "h100"


@pytest.mark.parametrize(("named", "status"), [("h100,nope", 404), ("h100,,small", 400), ("any,h100", 400)])
def test_pools_that_cannot_be_meant_are_refused_and_what_was_written_stays(browser, pool, named, status):
    spec = written(browser.get(ADDRESS))
    page = send(browser, {"file": spec, "do": "submit", "pools": named})
    assert (page.status_code, written(page)) == (status, spec)
    assert f'value="{named}"' in page.content.decode()
    assert Workflow.objects.count() == 0


@pytest.mark.parametrize(
    "said",
    [
        {"do": "destroy"},
        {"priority": "URGENT"},
        {"key": "k" * 300},
        {"key": "ä"},
        {"more": "x"},
        {"file": "\0"},
        {"file": ""},
        {"file": "{{"},
        {},
    ],
)
def test_nonsense_is_refused_and_leaves_nothing(browser, pool, said):
    page = send(browser, {"do": "submit", "file": "workflow: {}", **said})
    assert page.status_code == 400
    assert page["Content-Type"].startswith("text/html")
    assert Workflow.objects.count() == 0


@pytest.mark.parametrize("do", ["check", "submit"])
def test_a_nul_is_a_fault_with_its_line_and_the_rest_of_the_text_stays(browser, pool, do):
    spec = written(browser.get(ADDRESS))
    first, rest = spec.split("\n", 1)
    said = {"file": f"{first}\r\n\0{rest}\0", "pools": "h\x00100", "priority": "HIGH", "do": do}
    page = send(browser, said)
    assert (page.status_code, written(page).replace("\r\n", "\n")) == (400, spec)
    assert "line 2, column 1 : A NUL character is not accepted. The text below is without it." in text(page)
    assert "pools : Null characters are not allowed." in text(page)
    assert 'value="h100"' in page.content.decode()
    assert '<option value="HIGH" selected>' in page.content.decode()
    assert Workflow.objects.count() == 0


@pytest.mark.parametrize("wrong", [{"priority": "URGENT"}, {"key": "k" * 300}, {"more": "x"}])
def test_a_field_that_is_not_accepted_costs_nobody_their_text(browser, pool, wrong):
    spec = written(browser.get(ADDRESS))
    page = send(browser, {"file": spec, "do": "submit", **wrong})
    assert (page.status_code, written(page)) == (400, spec)
    assert f"{next(iter(wrong))} : " in text(page)


def test_a_page_of_another_site_submits_nothing(ann, pool):
    stranger = Client(enforce_csrf_checks=True)
    stranger.force_login(ann)
    form = stranger.get(ADDRESS)
    page = send(stranger, {"file": written(form), "do": "submit"})
    assert (page.status_code, Workflow.objects.count()) == (403, 0)


def test_checks_and_submissions_share_the_limit_of_rest(browser, pool, settings):
    settings.SUBMITS_PER_MINUTE = 1
    said = {"file": written(browser.get(ADDRESS)), "do": "check"}
    pages = [send(browser, said) for _ in range(2)]
    assert [page.status_code for page in pages] == [200, 429]
    assert "Retry-After" in pages[1]
