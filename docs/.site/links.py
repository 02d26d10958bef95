"""Let pages link to files of the repository outside docs/, such as examples/ and deploy/, on the site too.

On a code host ``../../examples/single-rack.yaml`` works as it stands. A site ends at docs/, so each linked
file is copied into it and the link is shortened by the step that leaves docs/. A file that does not exist is
a dead link and fails the build.
"""

import posixpath
import re
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

LINK = re.compile(r"(?<=\]\()(?P<target>(?:\.\./)[^)#\s]*)")


def on_page_markdown(markdown: str, /, *, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Point links that leave docs/ at copies inside the site, and add these copies to the site."""
    folder = posixpath.dirname(page.file.src_uri)
    root = Path(config.docs_dir).parent

    def inside(match: re.Match[str]) -> str:
        path = posixpath.normpath(posixpath.join(folder, match["target"]))
        source = root / path.removeprefix("../")
        if not path.startswith("../") or not source.exists():
            return match["target"]
        copy = f"repository/{path.removeprefix('../')}"
        if source.is_dir():
            copy += "/files.txt"
            content = "".join(
                f"{file.relative_to(root)}\n" for file in sorted(source.rglob("*")) if file.is_file()
            )
            added = File.generated(config, copy, content=content)
        else:
            copy += (
                ".txt" if source.suffix == ".md" else ""
            )  # shown as it is: its own links are a code host's
            added = File.generated(config, copy, abs_src_path=str(source))
        if files.get_file_from_path(copy) is None:
            files.append(added)
        return posixpath.relpath(copy, folder or ".")

    return LINK.sub(inside, markdown)
