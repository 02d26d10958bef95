"""One request of the controller, or of the driver's plugin on a node."""

from dataclasses import dataclass
from typing import Any, Literal

DOMAINS = "/apis/resource.nvidia.com/v1beta1"
Client = Literal["controller", "plugin"]
"""The sender: each has a client, with a limit, of its own."""


@dataclass(frozen=True, slots=True)
class Action:
    """One request; ``body`` is JSON."""

    verb: str
    path: str
    body: Any = None
    content_type: str = "application/json"
    by: Client = "controller"
