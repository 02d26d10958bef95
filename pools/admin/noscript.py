"""Pages that show themselves where no script runs: Unfold hides its own until its script has run."""

from django.template.loader import render_to_string


class NoScript:
    """A link that only such a browser follows; an asset among those of an admin."""

    def __html__(self) -> str:
        return render_to_string("pools/admin/noscript.html")

    def __eq__(self, other: object) -> bool:
        return isinstance(other, NoScript)

    def __hash__(self) -> int:
        return hash(NoScript)
