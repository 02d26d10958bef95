"""What keeps pages fresh, in a real browser before pages made up here; time is the browser's, moved on."""

from collections.abc import Iterator

import pytest
from playwright.sync_api import expect

from localcluster.directories import CHECKOUT

SCRIPT = (CHECKOUT / "pages/static/pages/live.js").read_text()
ADDRESS = "http://pages.test/"


def page_with(*parts):
    body = "".join(parts)
    return f"<!doctype html><main>{body}</main><footer id=live-control></footer><script src=live.js></script>"


def watched(name, text):
    return part(name, text, live="data-live data-watch=/watch")


STREAM = """
window.streams = [];
window.EventSource = class extends EventTarget {
  static OPEN = 1;
  static CLOSED = 2;
  constructor(address) {
    super();
    Object.assign(this, { address, readyState: EventSource.OPEN });
    window.streams.push(this);
  }
  close() { this.readyState = EventSource.CLOSED; }
};
"""
"""A stream that a test speaks for: ``streams`` has all that the page opened."""


def say(shown, kind, *, state=1):
    """Let the page's stream say something, being in this state then."""
    shown.evaluate(
        """([kind, state]) => {
            const stream = window.streams.at(-1);
            stream.readyState = state;
            stream.dispatchEvent(new Event(kind));
        }""",
        [kind, state],
    )
    shown.clock.run_for(100)


def open_streams(shown):
    return shown.evaluate("window.streams.filter((one) => one.readyState === 1).map((one) => one.address)")


def part(name, text, *, live="data-live"):
    return f"<section id={name} {live}>{text}</section>"


@pytest.fixture
def shown(chromium) -> Iterator:
    """A page at ADDRESS; ``shown.later(...)`` is how it is answered from then on, and lets time pass."""
    context = chromium.new_context()
    page = context.new_page()
    page.clock.install()
    page.add_init_script(STREAM)
    answers = {}

    def answer(route):
        if route.request.url.endswith("live.js"):
            route.fulfill(body=SCRIPT, content_type="text/javascript")
        else:
            route.fulfill(**answers)

    page.route("**/*", answer)

    def answered(*parts, **said):
        answers.clear()
        answers.update({"status": 200, "content_type": "text/html", "body": page_with(*parts), **said})

    def later(*parts, **said):
        answered(*parts, **said)
        page.clock.run_for(4000)

    page.answered, page.later = answered, later
    later(part("live-a", "one"))
    page.goto(ADDRESS)
    expect(page.locator("footer")).to_contain_text("This page updates itself.")
    yield page
    context.close()


def test_a_part_that_appears_is_put_in_its_place_and_one_that_is_gone_goes(shown):
    shown.later(
        part("live-z", "first"), part("live-a", "one"), part("live-b", "two"), part("live-c", "three")
    )
    expect(shown.locator("main")).to_have_text("firstonetwothree")
    shown.later(part("live-a", "one"), part("live-c", "four"))
    expect(shown.locator("main")).to_have_text("onefour")


def test_a_page_of_which_nothing_changes_any_more_stops(shown):
    shown.later(part("live-a", "the end", live=""))
    expect(shown.locator("main")).to_have_text("the end")
    shown.later(part("live-a", "never asked for"))
    expect(shown.locator("footer")).to_have_text("Nothing on this page changes any more.")
    expect(shown.locator("main")).to_have_text("the end")


@pytest.mark.parametrize(
    ("answer", "told"),
    [
        ({"status": 302, "headers": {"Location": "/login"}}, "You are no longer logged in"),
        ({"status": 403}, "You may not see this any more"),
        ({"status": 404}, "What this page shows is no longer there"),
        ({"status": 503}, "The service does not answer (503)"),
    ],
    ids=["logged out", "forbidden", "gone", "away"],
)
def test_it_says_why_a_page_is_no_longer_fresh_and_goes_on_when_it_is(shown, answer, told):
    shown.later(**answer)
    expect(shown.locator("footer")).to_contain_text(told)
    shown.later(part("live-a", "two"))
    shown.clock.run_for(8000)
    expect(shown.locator("main")).to_have_text("two")
    expect(shown.locator("footer")).to_contain_text("This page updates itself.")


def test_an_open_scrolled_or_focused_part_stays_so(shown):
    def content(text):
        wide = "<div class=wide style='width:50px;overflow:auto'><p style='width:900px'>wide</p></div>"
        return part("live-a", f"{text}<details><summary>more</summary>inside</details>{wide}<a href=#>go</a>")

    shown.later(content("one"))
    shown.get_by_text("more").click()
    shown.get_by_text("go").focus()
    shown.locator(".wide").evaluate("one => { one.scrollLeft = 77; }")
    shown.later(content("two"))
    expect(shown.locator("#live-a")).to_contain_text("two")
    expect(shown.get_by_text("inside")).to_be_visible()
    expect(shown.get_by_text("go")).to_be_focused()
    assert shown.locator(".wide").evaluate("one => one.scrollLeft") == 77


def test_it_stands_still_when_it_is_told_to(shown):
    shown.get_by_role("button", name="Pause updating").click()
    shown.later(part("live-a", "two"))
    expect(shown.locator("main")).to_have_text("one")
    shown.get_by_role("button", name="Go on updating").click()
    shown.later(part("live-a", "two"))
    expect(shown.locator("main")).to_have_text("two")


@pytest.fixture
def streaming(shown):
    """The same, of a page that has a stream."""
    shown.answered(watched("live-a", "one"))
    shown.goto(ADDRESS)
    expect(shown.locator("footer")).to_contain_text("This page updates itself.")
    assert open_streams(shown) == ["/watch"]
    return shown


def test_a_page_with_a_stream_is_loaded_when_it_says_so_and_seldom_otherwise(streaming):
    streaming.later(watched("live-a", "two"))
    expect(streaming.locator("main")).to_have_text("one")
    say(streaming, "state")
    expect(streaming.locator("main")).to_have_text("two")
    streaming.later(watched("live-a", "three"))
    expect(streaming.locator("main")).to_have_text("two")
    streaming.clock.run_for(12_000)
    expect(streaming.locator("main")).to_have_text("three")


def test_a_page_whose_stream_says_much_is_loaded_every_few_seconds(streaming):
    streaming.later(watched("live-a", "two"))
    say(streaming, "state")
    expect(streaming.locator("main")).to_have_text("two")
    streaming.answered(watched("live-a", "three"))
    for _ in range(10):
        say(streaming, "state")
    expect(streaming.locator("main")).to_have_text("two")
    streaming.clock.run_for(3000)
    expect(streaming.locator("main")).to_have_text("three")


def test_a_page_whose_stream_is_refused_is_loaded_every_few_seconds(streaming):
    say(streaming, "error", state=2)
    streaming.later(watched("live-a", "two"))
    expect(streaming.locator("main")).to_have_text("two")
    streaming.later(watched("live-a", "three"))
    expect(streaming.locator("main")).to_have_text("three")
    assert len(streaming.evaluate("window.streams")) == 1


def test_a_page_whose_stream_broke_off_is_loaded_every_few_seconds_until_it_is_back(streaming):
    say(streaming, "error", state=0)
    streaming.later(watched("live-a", "two"))
    expect(streaming.locator("main")).to_have_text("two")
    with streaming.expect_response(ADDRESS):  # what it says is read once more
        say(streaming, "state")
    streaming.later(watched("live-a", "three"))
    expect(streaming.locator("main")).to_have_text("two")


def test_a_stream_that_ends_is_not_opened_again(streaming):
    streaming.answered(part("live-a", "the end", live=""))
    say(streaming, "end")
    streaming.clock.run_for(4000)
    expect(streaming.locator("footer")).to_have_text("Nothing on this page changes any more.")
    assert open_streams(streaming) == []


def test_a_stream_is_open_while_somebody_looks(streaming):
    streaming.get_by_role("button", name="Pause updating").click()
    assert open_streams(streaming) == []
    streaming.get_by_role("button", name="Go on updating").click()
    assert open_streams(streaming) == ["/watch"]
    streaming.evaluate(
        """() => {
            Object.defineProperty(document, "hidden", { value: true });
            document.dispatchEvent(new Event("visibilitychange"));
        }"""
    )
    assert open_streams(streaming) == []
