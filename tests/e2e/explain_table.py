"""``python -m tests.e2e.explain_table``: the explanations that the last run of the tests saw, as Markdown."""

import json
import sys

from tests.artefacts import artefacts


def main() -> None:
    """Print a line for each kind of reason, in order of its name."""
    lines = ["| why | provoked by | sentence |", "|---|---|---|"]
    for path in sorted(artefacts("explained").glob("*.json")):
        row = json.loads(path.read_text())
        said = row["sentence"].replace("|", "\\|")
        lines.append(f"| `{row['why']}` | {row['by']} | {said} |")
    sys.stdout.write("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
