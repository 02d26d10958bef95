"""``python -m inventory``: write the bill of materials, the licences and the images into a folder."""

import argparse
import sys
from pathlib import Path

from inventory.documents import bill_of_materials, licence_list
from inventory.images import image_list
from inventory.packages import COMMAND, command_packages, packages
from web.release import VERSION


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m inventory", description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--digests", action="store_true", help="ask the registries with skopeo")
    options = parser.parse_args()
    try:
        shipped, command = packages(), command_packages()
        texts = {
            "sbom.cdx.json": bill_of_materials(shipped),
            "licences.md": licence_list(shipped),
            "command.cdx.json": bill_of_materials(command, product=COMMAND),
            "command-licences.md": licence_list(command, product=f"the command {COMMAND} {VERSION}"),
            "images.txt": image_list(digests=options.digests),
        }
    except LookupError as error:
        sys.stderr.write(f"{error}\n")
        return 1
    options.folder.mkdir(parents=True, exist_ok=True)
    for name, text in texts.items():
        (options.folder / name).write_text(text)
        sys.stdout.write(f"{options.folder / name}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
