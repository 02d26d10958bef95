"""Render one Jinja template in a process of its own, under limits; run by path, reads and writes JSON.

In: ``{"text", "values", "seconds", "memory", "size"}``. Out: ``{"text"}``, or ``{"error", "line"}``, or
``{"undefined", "line"}`` for a variable without a value. Imports nothing but Jinja, since it starts for
every templated submission.
"""

import json
import re
import resource
import sys
from typing import Any

from jinja2 import StrictUndefined
from jinja2.exceptions import TemplateSyntaxError, UndefinedError
from jinja2.sandbox import ImmutableSandboxedEnvironment


def main() -> None:
    request = json.load(sys.stdin)
    resource.setrlimit(resource.RLIMIT_CPU, (request["seconds"], request["seconds"]))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
    resource.setrlimit(resource.RLIMIT_AS, (request["memory"], request["memory"]))
    resource.setrlimit(resource.RLIMIT_NOFILE, (32, 32))
    try:
        answer(**rendered(request))
    except TemplateSyntaxError as error:
        answer(error=error.message or "syntax error", line=error.lineno)
    except UndefinedError as error:
        name = re.fullmatch(r"'(\w+)' is undefined", str(error))
        answer(**({"undefined": name[1]} if name else {"error": str(error)}), line=line_of(error))
    except MemoryError:
        answer(error=f"it needs over {request['memory'] // 2**20} MiB of memory")
    except RecursionError:
        answer(error="it recurses too deep")
    except Exception as error:  # noqa: BLE001 -- whatever a user's expression raises is the user's to read
        answer(error=str(error) or type(error).__name__, line=line_of(error))


def rendered(request: "dict[str, Any]") -> "dict[str, Any]":
    """The text, or that it is too long; it is never put together whole if it is."""
    environment = ImmutableSandboxedEnvironment(undefined=StrictUndefined, keep_trailing_newline=True)
    parts, size = [], 0
    for part in environment.from_string(request["text"]).generate(request["values"]):
        size += len(part)
        if size > request["size"]:
            return {"error": f"it renders to over {request['size']} characters"}
        parts.append(part)
    return {"text": "".join(parts)}


def line_of(error: BaseException) -> "int | None":
    """Line of the template in which it failed: the last frame that Jinja compiled."""
    line, trace = None, error.__traceback__
    while trace is not None:
        if trace.tb_frame.f_code.co_filename == "<template>":
            line = trace.tb_lineno
        trace = trace.tb_next
    return line


def answer(**content: object) -> None:
    json.dump(content, sys.stdout)


if __name__ == "__main__":
    main()
