"""The admin of configuration: the same services and the same checks as REST."""

from pools.admin import backend, pod_template, pool, revision, suspect_node

__all__ = ["backend", "pod_template", "pool", "revision", "suspect_node"]
