"""Views of paths that OSMO's API has not.

OSMO's client reads its few error codes, so its paths say USER for whatever is the caller's to change, and it
refuses a time with a zone. A program that calls these paths can tell what was wrong by the code, and gets
times with their zone.
"""

from collections.abc import Mapping
from typing import Any, ClassVar

from rest_framework.views import APIView

from web.rest.shapes import ZONED


class OwnView(APIView):
    """The base of these views; ``error_codes`` are by HTTP status."""

    serialization: ClassVar[Mapping[str, Any]] = ZONED
    error_codes: ClassVar[Mapping[int, str]] = {404: "NOT_FOUND", 409: "CONFLICT"}
