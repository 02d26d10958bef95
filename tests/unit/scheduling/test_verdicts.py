"""What each scheduler makes of one and the same request: held, or refused and why.

``.`` is held; a word is a refusal (of a capability, by its last word, or a fault's code), and one with ``~``
a notice on what is held.
"""

import pytest

from scheduling.backends.default import Default
from scheduling.backends.kai import Kai
from scheduling.backends.kubernetes import Kubernetes
from tests.unit.scheduling.build import gang, levels

POOL = levels("zone rack host")
DOMAINS = [("a", "r1", "h1"), ("a", "r2", "h2"), ("b", "r3", "h3")]
SAME_RACK_NAMES = [("a", "r1", "h1"), ("b", "r1", "h2")]
WARN = {"split_gangs": "warn", "unsupported_preferred": "warn"}

ASKED = {
    "nothing, one task": (gang("a"), {}, ". . ."),
    "nothing, a gang": (gang("a b"), {}, ". . ~no_gang"),
    "one rack": (gang("a b: rack! r"), {}, ". . required"),
    "one zone": (gang("a b: zone! z"), {}, ". . required"),
    "one host": (gang("a b: host! h"), {}, ". . required"),
    "one rack, names used twice": (
        gang("a b: rack! r"),
        {"domains": SAME_RACK_NAMES},
        ". path_domains required",
    ),
    "one rack, no node known": (gang("a b: rack! r"), {"domains": None}, ". ~domains_unknown required"),
    "one rack, for some": (gang("a b: rack! r", "c"), {}, ". multi_set required"),
    "one rack, for some, split": (gang("a b: rack! r", "c"), WARN, ". ~gang_split required"),
    "two racks": (gang("a b: rack! r", "c d: rack! s"), {}, ". multi_set required"),
    "two racks, split": (gang("a b: rack! r", "c d: rack! s"), WARN, ". ~gang_split required"),
    "two racks, one of one zone": (
        gang("a b: zone! z, rack! r", "c: rack! s"),
        WARN,
        ". path_domains required",
    ),
    "a rack and a zone apart": (gang("a b: rack! r", "c d: zone! z"), WARN, ". ~gang_split required"),
    "a rack in a zone": (gang("a b: zone! z, rack! r"), {}, ". path_domains required"),
    "a rack beside others in a zone": (
        gang("a b: zone! z, rack! r", "c: zone! z"),
        WARN,
        ". nested required",
    ),
    "two racks in a zone": (
        gang("a b: zone! z, rack! r", "c d: zone! z, rack! s"),
        WARN,
        ". nested required",
    ),
    "rather one rack": (gang("a b: rack? r"), {}, ". preferred preferred"),
    "rather one rack, or never mind": (
        gang("a b: rack? r"),
        WARN,
        ". ~preference_ignored ~no_gang+~preference_ignored",
    ),
    "rather one rack, for a minute": (
        gang("a b: rack? r ~60"),
        {},
        ". preferred+relax_pending preferred+relax_pending",
    ),
    "rather one rack, for a minute, or never mind": (
        gang("a b: rack? r ~60"),
        WARN,
        ". relax_pending relax_pending",
    ),
    "rather one rack, for an hour": (
        gang("a b: rack? r ~3600"),
        {},
        (
            "wait_beyond_queue_timeout preferred+relax_pending+wait_beyond_queue_timeout "
            "preferred+relax_pending+wait_beyond_queue_timeout"
        ),
    ),
    "a zone, rather a rack": (gang("a b: zone! z, rack? r"), {}, ". preferred preferred+required"),
    "a zone, rather a rack, or never mind": (
        gang("a b: zone! z, rack? r"),
        WARN,
        ". ~preference_ignored required",
    ),
    "a rack, rather a zone": (
        gang("a b: zone? z, rack! r"),
        {},
        "~preference_implied preferred preferred+required",
    ),
    "rather two racks of one zone": (
        gang("a b: zone? z, rack? r", "c d: zone? z, rack? s"),
        WARN,
        ". ~preference_ignored ~no_gang+~preference_ignored",
    ),
    "two racks, rather of one zone": (
        gang("a b: zone? z, rack! r", "c d: zone? z, rack! s"),
        WARN,
        ". ~gang_split+~preference_ignored required",
    ),
    "a zone for the group": (gang("a b", topology="zone! z"), {}, ". . required"),
    "a zone for the group, racks in it": (
        gang("a b: rack! r", "c: rack! s", topology="zone! z"),
        WARN,
        ". nested required",
    ),
    "a zone for the group, which one leaves": (
        gang("a b", "c: -", topology="zone! z"),
        WARN,
        ". ~gang_split required",
    ),
    "a rack for the group, a zone for one": (
        gang("a: zone! z", "b", topology="rack! r"),
        {},
        "not_narrower_than_group not_narrower_than_group not_narrower_than_group+required",
    ),
    "a key the pool lacks": (gang("a: row! r"), {}, "unknown_key unknown_key required+unknown_key"),
    "a rack with and without its zone": (
        gang("a: zone! z, rack! r", "b: rack! r"),
        {},
        "ambiguous_group ambiguous_group ambiguous_group+required",
    ),
}
"""By phrase: what is asked, the pool's choices, the answers of KAI, Kubernetes and any other scheduler."""


@pytest.mark.parametrize("phrase", ASKED)
def test_answered(phrase):
    asked, choices, want = ASKED[phrase]
    assert " ".join(verdict(make(), asked, choices) for make in (Kai, Kubernetes, Default)) == want


def verdict(backend, asked, choices):
    options = {"split_gangs": "refuse", "domains": DOMAINS, "queue_timeout": 600.0, **choices}
    checked = backend.check(asked, POOL, capabilities=backend.capabilities(None), **options)
    refused = {f.capability.split(".")[-1] if f.capability else f.code for f in checked.faults}
    told = {f"~{notice.code}" for notice in checked.notices}
    return "+".join(sorted(refused or told)) or "."
