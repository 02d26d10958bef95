"""Amounts as Kubernetes writes them (``1500m``, ``64Gi``), as numbers."""

from decimal import Decimal

from kubernetes.utils.quantity import parse_quantity


def quantity(text: str) -> Decimal:
    """Read a quantity exactly. Raises ValueError for a text that is none."""
    return Decimal(parse_quantity(text))
