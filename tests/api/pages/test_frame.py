"""What holds for every page: the login and its way back, errors as pages, nothing inline."""

import re

import pytest
from django.test import Client

from tests.api.pages.reading import text, words
from tests.factories import LEVELS, PoolFactory

pytestmark = pytest.mark.django_db


def test_the_root_leads_to_the_pools(client):
    assert client.get("/")["Location"] == "/ui/"


def test_a_stranger_logs_in_and_comes_back_to_what_they_asked_for(client, ann):
    PoolFactory(name="h100", levels=LEVELS)
    form = client.get("/ui/pools/h100?x=1")
    assert form["Location"] == "/ui/login?next=%2Fui%2Fpools%2Fh100%3Fx%3D1"
    said = {"username": "ann", "password": "correct horse", "next": "/ui/pools/h100?x=1"}
    assert client.post("/ui/login", said)["Location"] == "/ui/pools/h100?x=1"
    assert client.get("/ui/pools/h100?x=1").status_code == 200


def test_the_login_leads_to_no_other_site(client, ann):
    said = {"username": "ann", "password": "correct horse", "next": "https://example.com/"}
    assert client.post("/ui/login", said)["Location"] == "/ui/"


def test_a_wrong_password_is_said_and_the_name_is_not_told_apart(client, ann):
    pages = [
        client.post("/ui/login", {"username": name, "password": "wrong"}).content.decode()
        for name in ("ann", "nobody")
    ]
    without_token = {re.sub(r'name="csrfmiddlewaretoken" value="\w+"', "", page) for page in pages}
    assert "correct" in pages[0]
    assert len(without_token) == 1


@pytest.mark.parametrize(
    ("name", "password", "want"),
    [
        ("an\0n", "wrong", "Name: Null characters are not allowed."),
        ("", "wrong", "Name: This field is required."),
        ("ann", "", "Password: This field is required."),
    ],
)
def test_a_field_that_cannot_be_meant_is_named_in_the_alert(client, ann, name, password, want):
    page = client.post("/ui/login", {"username": name, "password": password}).content.decode()
    (alert,) = re.findall(r'<p role="alert" class="said bad">(.*?)</p>', page)
    assert alert.strip() == want


def test_a_user_who_logs_out_is_a_stranger_again(browser):
    assert browser.post("/ui/logout")["Location"] == "/ui/login"
    assert browser.get("/ui/").status_code == 302


def test_too_many_tries_are_refused_with_a_time_to_wait(client, ann, settings):
    settings.LOGINS_PER_MINUTE = 1
    tries = [client.post("/ui/login", {"username": "ann", "password": "wrong"}) for _ in range(2)]
    assert [answer.status_code for answer in tries] == [200, 429]
    assert int(tries[1]["Retry-After"]) > 0


@pytest.mark.parametrize("query", ["fo=1", "fo=1&ba=2"])
def test_a_page_says_each_fault_of_its_address_once_and_in_the_alert(browser, query):
    answer = browser.get(f"/ui/workflows?{query}")
    (alert,) = re.findall(r'<(\w+) role="alert">(.*?)</\1>', answer.content.decode(), re.DOTALL)
    names = [pair[:2] for pair in query.split("&")]
    want = sorted(f"{name} : There is no such field; accepted are status" for name in names)
    sentences = re.findall(r"\w+ : There is no such field; accepted are status", words(alert[1]))
    assert (answer.status_code, sentences) == (400, want)
    assert text(answer).count("There is no such field") == len(names)


@pytest.mark.parametrize("address", ["/ui/pools/none", "/ui/nothing", "/ui/pools/", "/ui/pools/a/b/c"])
def test_a_missing_page_is_a_page_that_says_so(browser, address):
    answer = browser.get(address)
    assert (answer.status_code, answer["Content-Type"]) == (404, "text/html; charset=utf-8")
    assert "<h1>There is nothing here</h1>" in answer.content.decode()


def test_the_address_above_the_pools_leads_to_their_list(browser, client):
    assert browser.get("/ui/pools")["Location"] == "/ui/"
    assert client.get("/ui/pools", follow=True).redirect_chain[-1][0].startswith("/ui/login")


def test_a_page_takes_no_method_that_it_does_not_have(browser):
    answer = browser.post("/ui/")
    assert answer.status_code == 405
    assert "<h1>" in answer.content.decode()


@pytest.mark.parametrize("address", ["/ui/", "/ui/pools/h100", "/ui/pools/h100/map.svg", "/ui/nothing"])
def test_a_page_says_which_methods_it_has(browser, address):
    answer = browser.options(address)
    assert (answer.status_code, answer["Allow"]) == (204, "GET, HEAD, OPTIONS")


@pytest.mark.parametrize("address", ["/ui/login", "/ui/login?next=/ui/login", "/ui/logout"])
def test_the_login_never_leads_back_to_itself_or_out_again(browser, ann, address):
    assert browser.get("/ui/login", {"next": address})["Location"] == "/ui/"
    said = {"username": "ann", "password": "correct horse", "next": address}
    assert Client().post("/ui/login", said)["Location"] == "/ui/"


@pytest.mark.parametrize("address", ["/ui/", "/ui/pools/h100", "/ui/pools/h100/map"])
def test_an_area_that_scrolls_sideways_is_reached_by_the_keyboard_and_has_a_name(browser, address):
    PoolFactory(name="h100", levels=LEVELS)
    wide = re.findall(r'<div class="wide[^>]*>', browser.get(address).content.decode())
    assert wide
    assert all('tabindex="0" role="region" aria-label="' in region for region in wide)


@pytest.mark.parametrize("address", ["/ui/", "/ui/pools/h100", "/ui/login", "/ui/nothing"])
def test_no_page_carries_scripts_or_styles_of_its_own(browser, address):
    PoolFactory(name="h100", levels=LEVELS)
    client = Client() if address == "/ui/login" else browser
    answer = client.get(address)
    page = answer.content.decode()
    assert "default-src 'none'" in answer["Content-Security-Policy"]
    assert not re.search(r"<script(?![^>]* src=)|<style|\sstyle=|\son[a-z]+=", page)
