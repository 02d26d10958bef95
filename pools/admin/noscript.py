"""Styles for browsers without scripts: Unfold hides its pages until its script has run."""

from django.template.loader import render_to_string


class NoScript:
    """A stylesheet for browsers without scripts, as an asset of an admin."""

    def __html__(self) -> str:
        return render_to_string("pools/admin/noscript.html")

    def __eq__(self, other: object) -> bool:
        return isinstance(other, NoScript)

    def __hash__(self) -> int:
        return hash(NoScript)
