"""Views of paths that OSMO's API has not.

OSMO's client reads its few error codes, so its paths say USER for whatever is the caller's to change. A
program that calls these paths can tell what was wrong by the code.
"""

from collections.abc import Mapping
from typing import ClassVar

from rest_framework.views import APIView


class OwnView(APIView):
    """The base of these views; ``error_codes`` are by HTTP status."""

    error_codes: ClassVar[Mapping[int, str]] = {404: "NOT_FOUND", 409: "CONFLICT"}
