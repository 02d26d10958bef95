"""What fits into a pool, over REST: how its free nodes are spread over domains."""

from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from pools.api.shapes import OwnObservedShape
from pools.selectors import pool_visible_to
from web.access.permissions import Needs
from web.policy import Action
from web.rest.own import OwnView
from web.rest.queries import NoQuery
from web.rest.shapes import Shape, about
from workflows.feasibility.placement.fragmentation import PoolFragments, pool_fragments


class SlotShape(Shape):
    size: int = about("Whole free nodes in one domain: 1, 2, 4, 8, ...")
    count: int = about("How many such groups fit at once.")


class KeySlotsShape(Shape):
    key: str
    label: str
    domains: int
    free: int = about("Whole free nodes that are in some domain.")
    unlabelled: int = about("Whole free nodes that are in none.")
    largest: int = about("The largest group of whole nodes that fits in one domain.")
    domain: list[str] = about("That domain's label values, broadest first.")
    slots: list[SlotShape]


class FragmentsShape(Shape):
    """A pool's free nodes by the domains of its keys; keys run broadest first."""

    nodes: int
    free: int = about("Nodes that take work and are wholly free.")
    keys: list[KeySlotsShape]


class FragmentationShape(FragmentsShape, OwnObservedShape):
    pool: str


def fragments_shape(fragments: PoolFragments) -> FragmentsShape:
    return FragmentsShape(nodes=fragments.nodes, free=fragments.free, keys=_keys(fragments))


def _keys(fragments: PoolFragments) -> list[KeySlotsShape]:
    return [
        KeySlotsShape(
            key=level.key,
            label=level.label,
            domains=level.domains,
            free=level.free,
            unlabelled=level.unlabelled,
            largest=level.largest,
            domain=list(level.domain),
            slots=[SlotShape(size=size, count=count) for size, count in level.slots.items()],
        )
        for level in fragments.keys
    ]


class FragmentationView(OwnView):
    access = {"GET": Needs(Action.POOL_LIST, on=None)}

    @extend_schema(operation_id="get_pool_fragmentation", responses=FragmentationShape)
    def get(self, request: Request, pool: str) -> Response:
        """Show how a pool's free nodes are spread over the domains of each of its keys."""
        NoQuery.of(request)
        row = pool_visible_to(request.user, pool, action=Action.POOL_LIST)
        fragments = pool_fragments(row)
        reply = FragmentationShape(
            pool=row.name,
            **fragments.freshness.as_json(),
            nodes=fragments.nodes,
            free=fragments.free,
            keys=_keys(fragments),
        )
        return Response(reply)
