"""Kubernetes' quantities (``1500m``, ``64Gi``) as numbers.

``kubernetes.utils`` reads more than Kubernetes writes: NaN and infinity, digits of other alphabets, and
exponents whose numbers take minutes to write out. Whoever answers for a cluster may send such text, so its
form is checked first, and the number is bounded as no node and no pod can ever meet it.
"""

import re
from decimal import ROUND_UP, Decimal

from kubernetes.utils.quantity import parse_quantity

MOST = 2**63 - 1
"""Larger quantities are lowered to this, as Kubernetes does with binary ones."""

_MOST_TEXT = 128
_MANY_DIGITS = 6  # of an exponent: more say no more than that the number is beyond all bounds
_FINEST = Decimal("1e-9")  # Kubernetes rounds up to it
_NUMBER = r"[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)"
_FORM = re.compile(rf"(?P<number>{_NUMBER})(?:[numkMGTPE]|[KMGTPE]i|[eE](?P<exponent>[+-]?[0-9]+))?")


def quantity(text: str) -> Decimal:
    """Read a quantity, rounded up to 10⁻⁹ and within ``MOST``. Raises ValueError for what is none.

    White space around it does not count, as in an API server.
    """
    text = text.strip(" \t\r\n")
    form = _FORM.fullmatch(text) if len(text) <= _MOST_TEXT else None
    if form is None:
        raise ValueError(f"{text[:64]!r} is no quantity")
    exponent = form["exponent"] or ""
    if len(exponent.lstrip("+-0")) > _MANY_DIGITS:
        text = form["number"] + ("e-" if exponent.startswith("-") else "e") + "9" * _MANY_DIGITS
    number = min(max(Decimal(parse_quantity(text)), Decimal(-MOST)), Decimal(MOST))
    return number.quantize(_FINEST, rounding=ROUND_UP) if abs(number) % _FINEST > 0 else number
