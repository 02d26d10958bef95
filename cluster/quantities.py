"""Kubernetes' quantities (``1500m``, ``64Gi``) as numbers."""

from decimal import Decimal

from kubernetes.utils.quantity import parse_quantity

MOST = Decimal(2**63)
"""Kubernetes caps a quantity at 2^63 - 1."""


def quantity(text: str) -> Decimal:
    """Read a quantity exactly. Raises ValueError for other text, and for what no quantity can be."""
    number = Decimal(parse_quantity(text))
    if not number.is_finite() or abs(number) > MOST:
        raise ValueError(f"{text} is no quantity of Kubernetes")
    return number
