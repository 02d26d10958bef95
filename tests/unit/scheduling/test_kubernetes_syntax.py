"""Names, labels and selectors as Kubernetes takes them."""

import pytest

from scheduling.kubernetes_syntax import is_dns_label, is_label_key, is_label_value, is_object_name, selects

TEXTS = {
    "a": (True, True, True, True),
    "": (False, False, False, True),
    "a-b1": (True, True, True, True),
    "-a": (False, False, False, False),
    "a.b": (False, True, True, True),
    "a..b": (False, False, True, True),
    "A_b": (False, False, True, True),
    "a/b": (False, False, True, False),
    "A/b": (False, False, False, False),
    "a" * 63: (True, True, True, True),
    "a" * 64: (False, True, False, False),
    "a" * 254: (False, False, False, False),
    "a\n": (False, False, False, False),
}


@pytest.mark.parametrize(("text", "want"), TEXTS.items())
def test_a_text_is_a_name_a_key_or_a_value_where_kubernetes_takes_it(text, want):
    assert (is_dns_label(text), is_object_name(text), is_label_key(text), is_label_value(text)) == want


def test_a_selector_matches_what_carries_all_of_its_labels():
    assert selects({}, {})
    assert selects({"a": "1"}, {"a": "1", "b": "2"})
    assert not selects({"a": "1", "b": "2"}, {"a": "1"})
    assert not selects({"a": "1"}, {"a": "2"})
