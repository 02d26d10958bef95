"""What each scheduler makes of one and the same request, as a table: held, or refused and why.

In ``ASKED`` ``.`` is held; a word is a refusal (of a capability, by its last word, or a fault's code), and
one with ``~`` a notice on what is held. ``python -m tests.unit.scheduling.verdicts`` prints the table of
docs/reference/schedulers.md.
"""

import sys

from scheduling.backends.default import Default
from scheduling.backends.kai import Kai
from scheduling.backends.kubernetes import Kubernetes
from scheduling.backends.kubernetes.gang import WITH_COMPOSITES
from scheduling.backends.kueue import Kueue
from tests.unit.scheduling.build import gang, levels, shaped
from tests.unit.scheduling.use_cases import CASES, KEYS, NAMES


class WithComposites(Kubernetes):
    """Kubernetes' own scheduler once it is known to hold composite pod groups."""

    title = "`kubernetes`, composites held"

    def capabilities(self, version):
        return super().capabilities(version or WITH_COMPOSITES)


BACKENDS = (Kai(), Kubernetes(), WithComposites(), Default(), Kueue())
POOL = levels("zone rack host")
DOMAINS = [("a", "r1", "h1"), ("a", "r2", "h2"), ("b", "r3", "h3")]
SAME_RACK_NAMES = [("a", "r1", "h1"), ("b", "r1", "h2")]
WARN = {"unsupported_preferred": "warn"}

ASKED = {
    "nothing, one task": (gang("a"), {}, ". . . . ."),
    "nothing, a gang": (gang("a b"), {}, ". . . ~no_gang ."),
    "one rack": (gang("a b: rack! r"), {}, ". . . required ."),
    "one zone": (gang("a b: zone! z"), {}, ". . . required ."),
    "one host": (gang("a b: host! h"), {}, ". . . required ."),
    "one rack, names used twice": (
        gang("a b: rack! r"),
        {"domains": SAME_RACK_NAMES},
        ". path_domains path_domains required .",
    ),
    "one rack, no node known": (
        gang("a b: rack! r"),
        {"domains": None},
        ". ~domains_unknown ~domains_unknown required .",
    ),
    "one rack, for some": (gang("a b: rack! r", "c"), {}, ". multi_set . required ."),
    "two racks": (gang("a b: rack! r", "c d: rack! s"), {}, ". multi_set . required ."),
    "two racks, one of one zone": (
        gang("a b: zone! z, rack! r", "c: rack! s"),
        {},
        ". multi_set+path_domains . required .",
    ),
    "a rack and a zone apart": (gang("a b: rack! r", "c d: zone! z"), {}, ". multi_set . required ."),
    "one rack, for tasks of two kinds": (
        shaped(gang("a b: rack! r"), a="big"),
        {},
        ". . . required mixed_pods",
    ),
    "two alike racks in a zone": (
        gang("a b: zone! z, rack! r", "c d: zone! z, rack! s"),
        {},
        ". multi_set+nested . required .",
    ),
    "a rack in a zone": (gang("a b: zone! z, rack! r"), {}, ". path_domains . required ."),
    "a rack beside others in a zone": (
        gang("a b: zone! z, rack! r", "c: zone! z"),
        {},
        ". multi_set+nested . required .",
    ),
    "rather one rack": (gang("a b: rack? r"), {}, ". . . preferred ."),
    "rather one rack, or never mind": (
        gang("a b: rack? r"),
        WARN,
        ". . . ~no_gang+~preference_ignored .",
    ),
    "rather one rack, for a minute": (
        gang("a b: rack? r ~60"),
        {},
        ". relax_pending relax_pending preferred+relax_pending relax_pending",
    ),
    "rather one rack, for a minute, or never mind": (
        gang("a b: rack? r ~60"),
        WARN,
        ". relax_pending relax_pending relax_pending relax_pending",
    ),
    "rather one rack, for an hour": (
        gang("a b: rack? r ~3600"),
        {},
        (
            "wait_beyond_queue_timeout relax_pending+wait_beyond_queue_timeout "
            "relax_pending+wait_beyond_queue_timeout "
            "preferred+relax_pending+wait_beyond_queue_timeout "
            "relax_pending+wait_beyond_queue_timeout"
        ),
    ),
    "a zone, rather a rack": (
        gang("a b: zone! z, rack? r"),
        {},
        ". . . preferred+required both_types",
    ),
    "a zone, rather a rack, or never mind": (
        gang("a b: zone! z, rack? r"),
        WARN,
        ". . . required both_types",
    ),
    "a rack, rather a zone": (
        gang("a b: zone? z, rack! r"),
        {},
        "~preference_implied ~preference_implied ~preference_implied preferred+required ~preference_implied",
    ),
    "rather two racks of one zone": (
        gang("a b: zone? z, rack? r", "c d: zone? z, rack? s"),
        WARN,
        ". . . ~no_gang+~preference_ignored ~preference_ignored",
    ),
    "two racks, rather of one zone": (
        gang("a b: zone? z, rack! r", "c d: zone? z, rack! s"),
        WARN,
        ". multi_set . required .",
    ),
    "a zone for the group": (gang("a b", topology="zone! z"), {}, ". . . required ."),
    "a zone for the group, racks in it": (
        gang("a b: rack! r", "c: rack! s", topology="zone! z"),
        {},
        ". multi_set+nested . required .",
    ),
    "a zone for the group, which one leaves": (
        gang("a b", "c: -", topology="zone! z"),
        {},
        ". multi_set . required .",
    ),
    "a rack for the group, a zone for one": (
        gang("a: zone! z", "b", topology="rack! r"),
        {},
        (
            "not_narrower_than_group not_narrower_than_group not_narrower_than_group "
            "not_narrower_than_group+required not_narrower_than_group"
        ),
    ),
    "a zone for the group, for a minute, then rather": (
        gang("a b", topology="zone? z ~60"),
        {},
        ". relax_pending relax_pending preferred+relax_pending relax_pending",
    ),
    "two racks, each for a time of its own": (
        gang("a b: rack? r ~60", "c d: rack? s ~120"),
        {},
        ". relax_pending relax_pending preferred+relax_pending relax_pending",
    ),
    "one rack, for two different times": (
        gang("a: rack? r ~60", "b: rack? r ~120"),
        {},
        (
            "two_waits relax_pending+two_waits relax_pending+two_waits "
            "preferred+relax_pending+two_waits relax_pending+two_waits"
        ),
    ),
    "one rack, required for a minute": (
        gang("a b: rack! r ~60"),
        {},
        (
            "wait_on_required relax_pending+wait_on_required relax_pending+wait_on_required "
            "relax_pending+required+wait_on_required relax_pending+wait_on_required"
        ),
    ),
    "one rack, required by one and preferred by another": (
        gang("a: rack! r", "b: rack? r"),
        {},
        (
            "required_and_preferred required_and_preferred required_and_preferred "
            "preferred+required+required_and_preferred required_and_preferred"
        ),
    ),
    "the rack of the group, written again": (
        gang("a: rack! r", "b", topology="rack! r"),
        {},
        ". . . required .",
    ),
    "another rack than the group's": (
        gang("a: rack! s", "b", topology="rack! r"),
        {},
        "contradicts_group contradicts_group contradicts_group contradicts_group+required contradicts_group",
    ),
    "a key the pool lacks": (
        gang("a: row! r"),
        {},
        "unknown_key unknown_key unknown_key required+unknown_key unknown_key",
    ),
    "a rack with and without its zone": (
        gang("a: zone! z, rack! r", "b: rack! r"),
        {},
        "ambiguous_group ambiguous_group ambiguous_group ambiguous_group+required ambiguous_group",
    ),
}
"""By phrase: what is asked, the pool's choices, and the answers.

Those of KAI, of Kubernetes without and with composites, of any other scheduler and of Kueue.
"""


def ask(backend, asked, choices, pool=POOL):
    """What a backend answers in a pool with these choices."""
    options = {"domains": DOMAINS, "queue_timeout": 600.0, **choices}
    return backend.check(asked, pool, capabilities=backend.capabilities(None), **options)


def verdict(backend, asked, choices):
    checked = ask(backend, asked, choices)
    refused = {f.capability.split(".")[-1] if f.capability else f.code for f in checked.faults}
    told = {f"~{notice.code}" for notice in checked.notices}
    return "+".join(sorted(refused or told)) or "."


def use_cases():
    """The four use cases, that of preferences also with the pool's choice to ignore them."""
    rows = [
        (NAMES[case], CASES[case], choices, levels(KEYS[case]))
        for case in CASES
        for choices in ({}, *([WARN] if case == 4 else []))
    ]
    return _markdown(rows)


def _markdown(rows):
    titles = ["asked for", "the pool says", *(_title(backend) for backend in BACKENDS)]
    lines = [titles, ["---"] * len(titles)]
    for phrase, asked, choices, pool in rows:
        cells = [_cell(ask(backend, asked, choices, pool)) for backend in BACKENDS]
        lines.append([phrase, _choices(choices), *cells])
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def _title(backend):
    return getattr(backend, "title", f"`{backend.name}`")


def _cell(checked):
    if checked.faults:
        why = sorted({f"`{f.capability}`" if f.capability else f.code for f in checked.faults})
        return f"refused: {', '.join(why)}"
    told = sorted({notice.code for notice in checked.notices})
    return f"accepted, with warnings: {', '.join(told)}" if told else "accepted"


def _choices(choices):
    return "; ".join(f"{name}: {choice}" for name, choice in choices.items())


if __name__ == "__main__":
    sys.stdout.write(use_cases())
