"""Tags of workflows: words that people put on them, to find them again."""

from collections.abc import Sequence

from django.db import transaction

from scheduling.errors import Fault, InvalidSpec
from workflows.models import Workflow

MOST_TAGS = 64
LONGEST_TAG = 63


def change_tags(workflow: Workflow, *, add: Sequence[str], remove: Sequence[str]) -> list[str]:
    """Take tags off and put tags on; returns all it carries. Repeating it changes nothing.

    Raises InvalidSpec for a tag that is empty, too long or unprintable, and for too many.
    """
    faults = [fault for i, tag in enumerate(add) if (fault := _fault(tag, i))]
    if faults:
        raise InvalidSpec("No tag was changed. " + faults[0].message, faults)
    with transaction.atomic():
        row = Workflow.objects.select_for_update(no_key=True).only("tags").get(pk=workflow.pk)
        tags = list(dict.fromkeys([*(tag for tag in row.tags if tag not in set(remove)), *add]))
        if len(tags) > MOST_TAGS:
            message = f"A workflow carries at most {MOST_TAGS} tags; it would have {len(tags)}."
            raise InvalidSpec(message, [Fault(("add",), "too_many_tags", message)])
        Workflow.objects.filter(pk=row.pk).update(tags=tags)
    return tags


def _fault(tag: str, place: int) -> Fault | None:
    if tag and tag == tag.strip() and tag.isprintable() and len(tag) <= LONGEST_TAG:
        return None
    message = f"{tag[:20]!a} is no tag: 1 to {LONGEST_TAG} printable characters, no space at either end."
    return Fault(("add", place), "invalid_tag", message)
