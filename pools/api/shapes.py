"""The shapes of configuration on the wire, which ``representations`` makes."""

from web.shapes import Shape, about


class ConditionShape(Shape):
    type: str
    status: str = about("True, False or Unknown.")
    reason: str
    message: str
    lastTransitionTime: str = about("Naive UTC.")  # noqa: N815 -- Kubernetes' name
    observedRevision: int  # noqa: N815 -- after Kubernetes' observedGeneration
