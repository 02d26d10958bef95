"""Kueue as a scheduler backend."""

from scheduling.backends.kueue.render import Kueue as Kueue
