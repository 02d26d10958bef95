"""Where the command begins: everything that ends it early becomes a sentence and an exit code."""

import sys


def main() -> None:
    if sys.argv[1:] == ["--version"]:  # scripts ask before they do anything, and need none of the commands
        from osmo_topology_cli.version import about  # noqa: PLC0415 -- the other commands do without it

        print(about())  # noqa: T201
        return
    try:
        from osmo_topology_cli.main import run  # noqa: PLC0415 -- its packages may be missing
    except ModuleNotFoundError as error:
        if error.name is None or error.name.partition(".")[0] not in {
            "requests",
            "rich",
            "typer",
            "websockets",
            "yaml",
        }:
            raise
        print(f"{error.name} is not installed; pip install osmo-topology-cli does it.", file=sys.stderr)  # noqa: T201
        sys.exit(2)
    sys.exit(run())
