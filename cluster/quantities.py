"""Kubernetes' quantities (``1500m``, ``64Gi``) as numbers.

``kubernetes.utils`` reads more than Kubernetes writes: NaN and infinity, spaces, digits of other alphabets,
and exponents whose numbers take minutes to write out. Whoever answers for a cluster may send such text, so
its form is checked first.
"""

import re
from decimal import Decimal

from kubernetes.utils.quantity import parse_quantity

MOST = 2**63 - 1
"""The largest quantity: Kubernetes lowers what is larger to it."""

_MANY_DIGITS = 6  # of an exponent: more say no more than that the number is beyond all bounds
_NUMBER = r"[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)"
_FORM = re.compile(rf"(?P<number>{_NUMBER})(?:[numkMGTPE]|[KMGTPE]i|[eE](?P<exponent>[+-]?[0-9]+))?")


def quantity(text: str) -> Decimal:
    """Read a quantity exactly, within ``MOST``. Raises ValueError for other text."""
    form = _FORM.fullmatch(text)
    if form is None:
        raise ValueError(f"{text[:64]!r} is no quantity")
    exponent = form["exponent"] or ""
    if len(exponent.lstrip("+-0")) > _MANY_DIGITS:
        text = form["number"] + ("e-" if exponent.startswith("-") else "e") + "9" * _MANY_DIGITS
    return min(max(Decimal(parse_quantity(text)), Decimal(-MOST)), Decimal(MOST))
