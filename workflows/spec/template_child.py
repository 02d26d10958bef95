"""Render one Jinja template in a process of its own, under limits; run by path, reads and writes JSON.

In: ``{"text", "values", "seconds", "memory", "size"}``. Out: ``{"text"}`` or ``{"error", "line"}``.
Imports nothing but Jinja, since it starts for every templated submission.
"""

import json
import resource
import sys

from jinja2 import StrictUndefined, TemplateError, TemplateSyntaxError
from jinja2.sandbox import ImmutableSandboxedEnvironment


def main() -> None:
    job = json.load(sys.stdin)
    seconds = max(1, int(job["seconds"]))
    resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds + 1))
    resource.setrlimit(resource.RLIMIT_NOFILE, (32, 32))
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
    resource.setrlimit(resource.RLIMIT_AS, (job["memory"], job["memory"]))
    environment = ImmutableSandboxedEnvironment(undefined=StrictUndefined, keep_trailing_newline=True)
    try:
        parts, size = [], 0
        for part in environment.from_string(job["text"]).generate(job["values"]):
            size += len(part)
            if size > job["size"]:
                return answer(error=f"the template renders to over {job['size']} characters")
            parts.append(part)
        answer(text="".join(parts))
    except TemplateSyntaxError as error:
        answer(error=error.message or "syntax error", line=error.lineno)
    except TemplateError as error:
        answer(error=str(error), line=line_of(error))
    except MemoryError:
        answer(error="the template needs more memory than it may have")
    except RecursionError:
        answer(error="the template recurses too deep")
    except Exception as error:  # noqa: BLE001 -- whatever a user's expression raises is the user's to read
        answer(error=f"{type(error).__name__}: {error}", line=line_of(error))


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
