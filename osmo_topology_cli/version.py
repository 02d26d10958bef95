"""The version of the command, which is the product's: both come out of one file when they are built."""

from importlib import metadata

DISTRIBUTIONS = ("osmo-topology-cli", "osmo-topology")  # the second: a checkout


def about() -> str:
    """What ``--version`` prints."""
    return f"osmo-topology {version()}"


def version() -> str:
    for distribution in DISTRIBUTIONS:
        try:
            return metadata.version(distribution)
        except metadata.PackageNotFoundError:
            continue
    return "unknown"
