"""Print the table of commands with what became of each: ``python -m tests.contract.table``."""

import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.contract.cases import cases


class _Results:
    """Collect what became of each case, by its place among the cases."""

    def __init__(self) -> None:
        self.of: dict[str, str] = {}

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        name = report.nodeid.partition("[")[2].removesuffix("]")
        if report.when == "call" or report.outcome != "passed":
            self.of[name] = "waits" if hasattr(report, "wasxfail") else report.outcome


def main() -> int:
    results = _Results()
    code = pytest.main(["-q", "--no-header", str(Path(__file__).parent / "test_commands.py")], [results])
    sys.stdout.write("\n" + "\n".join(_lines(results.of)) + "\n")
    return int(code)


def _lines(results: dict[str, str]) -> Iterator[str]:
    commands: dict[str, Counter[str]] = {}
    for case in cases():
        result = results.get(f"{case.file}: {case.about}", "lost")
        commands.setdefault(case.command, Counter())[result] += 1
    width = max(map(len, commands))
    yield f"{'command'.ljust(width)}  result  cases"
    for command, counts in commands.items():
        passed = counts["passed"]
        result = "pass" if passed == counts.total() else "waits" if counts["waits"] else "FAIL"
        yield f"{command.ljust(width)}  {result.ljust(6)}  {passed}/{counts.total()}"


if __name__ == "__main__":
    sys.exit(main())
