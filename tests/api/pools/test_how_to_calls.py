"""The REST interface accepts the requests of the how-to pages."""

import json
import re
import shlex

import pytest

from localcluster.directories import CHECKOUT
from pools.models import Pool
from pools.selectors import installation
from pools.services.pool_objects import queue_of
from tests.api.pools.conftest import client_of
from tests.fakes.kai import kai_cluster, reached_through

METHODS = {"PUT": "put", "PATCH": "patch", "POST": "post"}


def calls():
    """(page, method, path, body, headers) of each curl that changes something."""
    for page in sorted((CHECKOUT / "docs/how-to").glob("*.md")):
        text = page.read_text().replace("\\\n", " ")
        for line in re.findall(r"^\$ (curl .*)", text, re.MULTILINE):
            words = shlex.split(line, comments=True)
            if "-X" in words and "-d" in words:
                (address,) = (word for word in words if "/api/" in word)
                headers = [words[place + 1] for place, word in enumerate(words) if word == "-H"]
                method, body = words[words.index("-X") + 1], words[words.index("-d") + 1]
                yield page.stem, method, address[address.index("/api/") :], json.loads(body), headers


CALLS = {
    f"{page} {method} {path}": (method, path, body, headers) for page, method, path, body, headers in calls()
}
DOCUMENTS = {
    page.stem: json.loads(block)
    for page in sorted((CHECKOUT / "docs/how-to").glob("*.md"))
    for block in re.findall(r"^```json\n(.*?)^```", page.read_text(), re.MULTILINE | re.DOTALL)
}


@pytest.fixture
def administrator(db):
    cluster = kai_cluster()
    with reached_through({"": cluster, "/etc/osmo/remote.kubeconfig": cluster}):
        yield client_of(username="administrator", is_staff=True)


@pytest.mark.parametrize("call", CALLS)
def test_a_call_is_accepted(administrator, call):
    method, path, body, headers = CALLS[call]
    assert any(header.startswith("Authorization: Bearer $") for header in headers)
    assert "Content-Type: application/json" in headers
    answer = getattr(administrator, METHODS[method])(path, body, format="json")
    assert answer.status_code == 200, answer.content


@pytest.mark.parametrize("page", DOCUMENTS)
def test_a_document_of_a_backend_is_accepted(administrator, page):
    answer = administrator.put("/api/configs/backend/default", DOCUMENTS[page], format="json")
    assert answer.status_code == 200, answer.content


def test_there_are_calls():
    assert len(CALLS) >= 4


def test_the_files_of_a_pool_on_kueue_are_accepted(administrator):
    page = (CHECKOUT / "docs/how-to/kueue-pool.md").read_text()
    blocks = re.findall(r"^```yaml\n(.*?)^```", page, re.MULTILINE | re.DOTALL)
    queues = []
    for text in (block for block in blocks if "pools:" in block):
        answer = administrator.put("/api/configs/file", {"file": text}, format="json")
        assert answer.status_code == 200, answer.content
        queues.append(queue_of(Pool.objects.get(name="train"), installation()))
    somebodys, own = queues
    assert (somebodys, own[: len("osmo-topology-pool-osmo-train-")]) == (
        "team-train",
        "osmo-topology-pool-osmo-train-",
    )
