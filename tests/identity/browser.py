"""Somebody at the provider's pages, without a browser: follows redirects and sends forms."""

from html.parser import HTMLParser
from urllib.parse import urljoin

import requests

SECONDS = 30


class FirstForm(HTMLParser):
    """The first form of a page: where it goes, and its fields."""

    def __init__(self, page):
        super().__init__()
        self.action, self.fields, self._inside = None, {}, False
        self.feed(page)

    def handle_starttag(self, tag, attributes):
        values = dict(attributes)
        if tag == "form" and self.action is None:
            self.action, self._inside = values.get("action", ""), True
        elif self._inside and tag in {"input", "button"} and values.get("name"):
            self.fields[values["name"]] = values.get("value") or ""

    def handle_endtag(self, tag):
        if tag == "form":
            self._inside = False


class Person:
    """A user of the provider, with the cookies of their browser."""

    def __init__(self, name, *, authority):
        self.name = name
        self.session = requests.Session()
        self.session.trust_env = False  # the authority alone, whatever the machine trusts
        self.session.verify = str(authority)

    def visit(self, address, *, until=None, until_shown=None):
        """Log in and agree until sent to an address that begins with ``until``; returns that address.

        Or, with ``until_shown``, until a page has this text.
        """
        answer = self.session.get(address, allow_redirects=False, timeout=SECONDS)
        for _ in range(20):
            if answer.is_redirect:
                address = urljoin(answer.url, answer.headers["Location"])
                if until and address.startswith(until):
                    return address
                answer = self.session.get(address, allow_redirects=False, timeout=SECONDS)
            elif until_shown and until_shown in answer.text:
                return answer.url
            else:
                answer = self._fill_in(answer)
        raise AssertionError(f"never at {until or until_shown}: {answer.status_code} {answer.text[:2000]}")

    def _fill_in(self, answer):
        form = FirstForm(answer.text)
        assert form.action, f"{answer.status_code}: no form on the page: {answer.text[:2000]}"
        if "login" in form.fields:
            form.fields |= {"login": self.name, "password": "any"}
        form.fields.pop("abort", None)
        return self.session.post(
            urljoin(answer.url, form.action), data=form.fields, allow_redirects=False, timeout=SECONDS
        )

    def close(self):
        self.session.close()
