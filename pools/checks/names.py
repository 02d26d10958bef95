"""Names of pools, platforms, backends and pod templates. Pure."""

import re

from pools.models import CONFIG_NAME, config_name
from scheduling.errors import Fault, Path

MAX_NAME = 63


def check_name(name: str, *, path: Path) -> list[Fault]:
    """Find what is wrong with the name of a pool, platform or backend."""
    if len(name) <= MAX_NAME and re.fullmatch(CONFIG_NAME, name):
        return []
    message = f"{name[:MAX_NAME]!r} is no name: at most {MAX_NAME} characters. {config_name.message}"
    return [Fault(path, "invalid_name", message, allowed=(CONFIG_NAME,))]
