import html
import re

import pytest
from django.contrib.auth.models import User
from django.test import Client

from pools import services
from tests.fakes.kai import cluster, clusters  # noqa: F401 -- fixtures
from tests.fakes.usage import running  # noqa: F401 -- a fixture

ADMIN = services.ConfigChange(username="setup")


@pytest.fixture
def browser(db):
    """A member of staff, logged in, with no permission but that."""
    browser = Client()
    browser.force_login(User.objects.create_user("ann", is_staff=True))
    return browser


@pytest.fixture
def kai(db):
    return services.put_backend(name="kai", document={"kubeconfig": "/etc/kai"}, change=ADMIN).value


@pytest.fixture
def plain(db):
    document = {"scheduler_settings": {"scheduler_type": "default"}}
    return services.put_backend(name="plain", document=document, change=ADMIN).value


@pytest.fixture
def pool(kai):
    document = {
        "backend": "kai",
        "topology_keys": [
            {"key": "zone", "label": "topology.kubernetes.io/zone"},
            {"key": "rack", "label": "example.com/rack"},
        ],
        "platforms": {"h100": {"node_selector": {"example.com/gpu": "h100"}}},
        "node_selector": {"example.com/pool": "train"},
    }
    return services.put_pool(name="train", document=document, change=ADMIN).value


def fields_of(answer):
    """What a browser would send for the form it was shown."""
    context = answer.context
    sent = {}
    forms = [context["adminform"].form]
    for inline in context["inline_admin_formsets"]:
        forms += [inline.formset.management_form, *inline.formset.forms]
    for form in forms:
        for bound in form:
            value = bound.value()
            if value is True:
                value = "on"
            if value is not None and value is not False:
                sent[bound.html_name] = value
    return sent


def errors_of(answer):
    """Field (or None) -> messages, over the form and its rows."""
    assert answer.status_code == 200, answer.status_code
    context = answer.context
    found = {}
    for name, messages in context["adminform"].form.errors.items():
        found[name] = list(messages)
    for inline in context["inline_admin_formsets"]:
        for form in inline.formset.forms:
            for name, messages in form.errors.items():
                found[f"{form.prefix}-{name}"] = list(messages)
        if messages := inline.formset.non_form_errors():
            found[inline.formset.prefix] = list(messages)
    return found


def shown_in_page(answer, message):
    text = html.unescape(re.sub(r"<[^>]*>|\s+", " ", answer.content.decode()))
    return message in re.sub(r"\s+", " ", text)
