"""What a group's explanation says, kept for ``python -m tests.e2e.explain_table``."""

import json

from tests.artefacts import artefacts


def explain(world, name, why, *, by, group="g", says="", evidence=lambda _: True):
    """Wait until a group's explanation is of this kind and says this; keep it and return it.

    ``evidence`` looks at what it rests on, which may come bit by bit.
    """

    def look():
        answer = world.service.get(f"/api/workflow/{name}/explain")
        return next((row for row in answer["groups"] if row["group"] == group), {})

    found = world.wait(
        look, lambda row: row.get("why") == why and says in row["sentence"] and evidence(row["evidence"])
    )
    assert found["since"]
    assert found["help"]
    row = {"why": why, "by": by, "sentence": found["sentence"]}
    (artefacts("explained") / f"{why}.json").write_text(json.dumps(row))
    return found
