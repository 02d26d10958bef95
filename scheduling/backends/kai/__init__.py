"""All that the product knows of the KAI scheduler: objects, features by version, texts, evictions."""

from scheduling.backends.kai.render import Kai

__all__ = ["Kai"]
