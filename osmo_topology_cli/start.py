"""Where the command begins: everything that ends it early becomes a sentence and an exit code."""

import sys


def main() -> None:
    try:
        from osmo_topology_cli.main import run  # noqa: PLC0415 -- its packages may be missing
    except ModuleNotFoundError as error:
        if error.name is None or error.name.partition(".")[0] not in {"requests", "rich", "typer", "yaml"}:
            raise
        print(f"{error.name} is not installed; pip install osmo-topology-cli does it.", file=sys.stderr)  # noqa: T201
        sys.exit(2)
    sys.exit(run())
