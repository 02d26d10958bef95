"""Kubernetes' quantities (``1500m``, ``64Gi``) as numbers."""

from decimal import Decimal

from kubernetes.utils.quantity import parse_quantity


def quantity(text: str) -> Decimal:
    """Read a quantity exactly. Raises ValueError for other text."""
    return Decimal(parse_quantity(text))
