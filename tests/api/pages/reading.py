"""What a page says, for tests: its words without its markup."""

import html
import re


def text(page):
    """All words of a page, in one line."""
    return words(page.content.decode())


def words(markup):
    markup = re.sub(r'<span class="rest">(.*?)</span>', r"\1", markup)  # what a shortened name is copied with
    return " ".join(html.unescape(re.sub(r"<[^>]*>", " ", markup)).split())


def rows(page):
    """The rows of all tables, cell by cell, as text."""
    found = re.findall(r"<tr>(.*?)</tr>", page.content.decode(), re.DOTALL)
    return [
        [words(cell) for cell in re.findall(r"<t[hd][^>]*>(.*?)</t[hd]>", row, re.DOTALL)] for row in found
    ]
