"""Whatever is written as configuration: it is saved and can be used, or refused and nothing is written.

Documents are about right in every field, so that each comes near to being accepted, and go through the
services, below REST and the admin.
"""

import json
from uuid import uuid4

import pytest
from django.core import serializers
from django.db import transaction
from hypothesis import HealthCheck, event, given, settings
from hypothesis import strategies as st

from pools import services
from pools.documents import backend as backend_document
from pools.documents import pool as pool_document
from pools.models import Backend, ConfigRevision, Platform, Pool, ServiceConfig, TopologyKey
from pools.selectors import workflow_limits
from pools.services.recording import ConfigChange
from scheduling.backends.registry import scheduler_backend
from scheduling.errors import TopologyError
from tests.api.workflows.specs import gang, text
from tests.factories import LEVELS, BackendFactory, PoolFactory
from tests.fakes.kai import kai_cluster, reached_through
from workflows.admission.admit import admit
from workflows.admission.pool_facts import coverage_warnings, pool_facts
from workflows.manifests.group import render_group
from workflows.spec import SpecLimits, read_workflow

pytestmark = [pytest.mark.django_db, pytest.mark.timeout(3600)]

bounded = settings(
    max_examples=max(20, settings.default.max_examples // 2), suppress_health_check=list(HealthCheck)
)
CHANGE = ConfigChange(username="root")
TABLES = (Backend, ConfigRevision, Platform, Pool, ServiceConfig, TopologyKey)

WORDS = st.sampled_from(
    ["", "kai", "native", "train", "a", "a.b", "-a", "rack", "zone", "example.com/rack", "nvidia.com/gpu",
     "kubernetes.io/hostname", "topology.kubernetes.io/zone", "osmo", "osmo-a", "user-a", "default", "8h",
     "60d", "PT8H", "1-3,7", "7-3", "3006", "99999", "-1", "COMPLETE", "FAIL", "/data", "/data:/mnt", "/a/..",
     "/a:/b:/c", "//", "/etc/kai", "/nowhere", "https://x", "refuse", "warn", "managed", "external", "Exists",
     "Equal", "NoExecute", "inf", "1e400", "\u0661h", "a" * 64, "a" * 300, "x" * 1025]
)  # fmt: skip
TEXTS = WORDS | st.text(max_size=6)
SCALARS = st.none() | st.booleans() | st.integers(-2, 2**70) | st.floats() | TEXTS
ANYTHING = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=8,
)


def mostly(strategy):
    """What belongs there, nineteen times in twenty."""
    return st.integers(0, 19).flatmap(lambda at: strategy if at else ANYTHING)


def often(*words):
    """One of these, four times in five."""
    return st.integers(0, 4).flatmap(lambda at: st.sampled_from(words) if at else TEXTS)


def shaped(**fields):
    return st.fixed_dictionaries({}, optional={name: mostly(field) for name, field in fields.items()})


LABELS = st.dictionaries(
    st.sampled_from(["a/b", "c", "d.e/f"]), st.sampled_from(["", "x", "y"]), max_size=2
) | st.dictionaries(TEXTS, TEXTS, max_size=1)
TOLERATIONS = st.lists(
    shaped(
        key=often("a", "b/c"),
        operator=often("Exists", "Equal"),
        value=often("", "v"),
        effect=often("", "NoExecute"),
        tolerationSeconds=st.integers(),
    ),
    max_size=2,
)
GOOD_PATHS = st.sampled_from(["/data", "/data:/mnt", "/", "//a", "/a b", "/a/./b:/c"])
BAD_PATHS = st.sampled_from(["/a/../b", "/a:/b:/c", "/a\n"])
PATHS = st.lists(GOOD_PATHS, max_size=2) | st.lists(BAD_PATHS | TEXTS, max_size=1)
PLATFORM = shaped(
    description=TEXTS,
    node_selector=LABELS,
    tolerations=TOLERATIONS,
    host_network_allowed=st.booleans(),
    privileged_allowed=st.booleans(),
    allowed_mounts=PATHS,
    default_mounts=PATHS,
)
GPU = shaped(guarantee=st.floats(-2, 9), maximum=st.integers(-2, 9), weight=st.floats(0, 9))
EXIT_ACTIONS = st.dictionaries(
    often("COMPLETE", "FAIL", "RESCHEDULE", "RESTART_GROUP"), often("1-3,7", "3006", "7-3"), max_size=2
)
LEVEL = st.fixed_dictionaries(
    {"key": often("zone", "rack", "clique", "host"), "label": often("a/b", "c", "kubernetes.io/hostname")}
)
POOL = {
    "backend": st.sampled_from(["kai", "native", "plain"]),
    "description": TEXTS,
    "nvlink": st.booleans(),
    "topology_keys": st.lists(LEVEL, max_size=3),
    "enable_maintenance": st.booleans(),
    "default_platform": st.sampled_from(["", "", "", "gpu"]),
    "platforms": st.dictionaries(often("gpu", "cpu"), PLATFORM, max_size=2),
    "node_selector": LABELS,
    "tolerations": TOLERATIONS,
    "unsupported_preferred": st.sampled_from(["refuse", "warn"]),
    "free_preferences_after": st.integers(-1, 600),
    "node_lost_after": st.integers(-1, 600),
    "force_lost_pods": st.booleans(),
    "avoid_suspect_nodes": st.booleans(),
    "allow_exec": st.booleans(),
    "allow_port_forward": st.booleans(),
    "infeasible": st.sampled_from(["accept", "warn", "refuse"]),
    "topology_source": st.sampled_from(["managed", "external"]),
    "topology_name": often("", "floor"),
    "local_queue": often("", "team"),
    "shared_credentials": st.lists(often("hub", "s3", "osmo-a"), max_size=2),
    "max_num_workflows": st.none() | st.integers(-1, 9),
    "max_num_tasks_per_user": st.none() | st.integers(-1, 9),
    "ended_workflow_days": st.none() | st.integers(-1, 9),
    "default_exec_timeout": often("8h", "PT8H", ""),
    "max_queue_timeout": often("60d", "90", "1m"),
    "default_exit_actions": EXIT_ACTIONS,
    "recovery": st.fixed_dictionaries(
        {},
        optional={
            "preempted": often("requeue", "task", "fail"),
            "failed": often("requeue", "fail"),
            "unexplained": often("requeue", "task", "fail"),
            "max": st.integers(-1, 12),
            "replace_patience": often("10m", "0"),
            "backoff": st.fixed_dictionaries(
                {}, optional={"first": often("30s", "1h"), "limit": often("10m")}
            ),
        },
    ),
    "max_recoveries": st.integers(-1, 12),
    "max_grace_period_seconds": st.integers(0, 700),
    "resources": st.fixed_dictionaries({}, optional={"gpu": GPU}),
}  # fmt: skip


@st.composite
def part_of(draw, shape):
    """A document with a few of the fields of a shape, and at times one that nobody knows."""
    names = draw(st.lists(st.sampled_from(sorted(shape)), max_size=4, unique=True))
    document = {name: draw(mostly(shape[name])) for name in names}
    if draw(st.integers(0, 15)) == 0:
        document[draw(TEXTS)] = draw(ANYTHING)
    return document


BACKEND = {
    "description": TEXTS,
    "enabled": st.booleans(),
    "kubeconfig": st.sampled_from(["", "/etc/kai"]),
    "context": st.just("") | TEXTS,
    "k8s_namespace": st.sampled_from(["osmo", "a-b"]) | TEXTS,
    "namespace": TEXTS,
    "scheduler_settings": shaped(
        scheduler_type=st.sampled_from(["kai", "kubernetes", "default"]) | TEXTS,
        scheduler_name=TEXTS,
        scheduler_timeout=st.integers(-1, 2**40),
    ),
    "dashboard_url": TEXTS,
    "tests": st.lists(TEXTS, max_size=2),
    "node_conditions": shaped(rules=LABELS, prefix=TEXTS),
    "name": TEXTS,
}
LIMITS = {
    "max_num_tasks": st.integers(0, 10**6),
    "max_num_dependencies": st.integers(-1, 10**6),
    "max_retry_per_task": st.integers(-1, 2000),
    "max_object_bytes": st.integers(0, 10**7),
    "default_exec_timeout": often("8h", "PT8H", ""),
    "max_exec_timeout": often("60d", "90"),
    "max_queue_timeout": often("60d", "90", "1m"),
    "max_pod_restart_limit": often("30m", "0", "PT1M"),
    "max_log_lines": st.integers(),
    "workflow_info": shaped(max_name_length=st.integers(0, 70)),
}
NAMES = st.sampled_from(["train", "new", "new.2"]) | st.text(
    st.characters(codec="ascii", min_codepoint=1), max_size=6
)


@pytest.fixture
def service():
    """Three backends, of which one has a pool, and whose clusters answer."""
    for name, kind in (("kai", "kai"), ("native", "kubernetes"), ("plain", "default")):
        BackendFactory(name=name, scheduler_type=kind)
    PoolFactory(name="train", levels=LEVELS, backend=Backend.objects.get(name="kai"), nvlink=True)
    with reached_through({"": kai_cluster(), "/etc/kai": kai_cluster()}):
        yield


def tables():
    """All rows of configuration, as text."""
    return {table: serializers.serialize("json", table.objects.order_by("pk")) for table in TABLES}


def written(write):
    """What was saved, or the refusal. Anything else that is raised fails the test."""
    try:
        with transaction.atomic():
            return write()
    except TopologyError as refused:
        return refused


def tried(write, then):
    """Write; what was saved is looked at by ``then``, what was refused has changed nothing. Undone after."""
    with transaction.atomic():
        before = tables()
        outcome = written(write)
        event(type(outcome).__name__)
        if isinstance(outcome, TopologyError):
            assert outcome.message
            assert all(fault.message and len(fault.message) < 2000 for fault in outcome.faults)
            assert tables() == before, "something was written by what was refused"
        else:
            then(outcome)
        transaction.set_rollback(True)


def usable(saved):
    """What was saved of a pool: the same again is no change, and a workflow is checked and rendered."""
    name, revision = saved.value.name, saved.value.revision
    pool = Pool.objects.select_related("backend__cluster").get(name=name)
    document = pool_document.document_of(pool)
    json.dumps(document, allow_nan=False)
    assert services.put_pool(name=name, document=document, change=CHANGE).value.revision == revision
    facts = pool_facts(pool)
    topology = [{"key": facts.terms.levels[-1].key}] if facts.terms.levels else []
    spec = read_workflow(
        text(gang(2, topology=topology)),
        variables=(),
        string_variables=(),
        limits=SpecLimits(),
        allow_localpath=False,
    )
    groups, checked = admit(
        spec,
        facts,
        user="ann",
        priority="NORMAL",
        name="train-1",
        workflow=uuid4(),
        scheduler=scheduler_backend(facts.terms.scheduler_type),
        new_uuid=uuid4,
    )
    coverage_warnings(pool, facts, [group.gang for group in groups])
    if checked.faults:
        return
    for group in groups:
        for pod in render_group(group).pods.values():
            (container,) = pod["spec"]["containers"]
            for mount in container.get("volumeMounts", ()):
                assert ":" not in mount["mountPath"]
            for volume in pod["spec"].get("volumes", ()):
                path = volume["hostPath"]["path"]
                assert path.startswith("/")
                assert ".." not in path.split("/")


@pytest.mark.usefixtures("service")
@bounded
@given(NAMES, part_of(POOL), st.sampled_from(["kai", "native", "plain"]))
def test_any_pool_is_saved_and_usable_or_refused_whole(name, document, backend):
    tried(
        lambda: services.put_pool(name=name, document={"backend": backend, **document}, change=CHANGE), usable
    )


@pytest.mark.usefixtures("service")
@bounded
@given(part_of(POOL) | ANYTHING)
def test_any_change_of_a_pool_is_saved_and_usable_or_refused_whole(changes):
    tried(lambda: services.patch_pool(name="train", changes=changes, change=CHANGE), usable)


@pytest.mark.usefixtures("service")
@bounded
@given(
    st.dictionaries(NAMES, part_of(POOL).map(lambda pool: {"backend": "kai", **pool}) | ANYTHING, max_size=3)
)
def test_of_many_pools_all_are_saved_or_none(documents):
    tried(
        lambda: services.put_pools(documents=documents, change=CHANGE),
        lambda saved: sorted(documents) == sorted(pool.name for pool in saved.value),
    )


def same_again(saved):
    """A backend's own document changes nothing."""
    document = backend_document.document_of(saved.value)
    json.dumps(document, allow_nan=False)
    again = services.put_backend(name=saved.value.name, document=document, change=CHANGE)
    assert again.value.revision == saved.value.revision


@pytest.mark.usefixtures("service")
@bounded
@given(st.sampled_from(["kai", "plain"]) | NAMES, part_of(BACKEND) | ANYTHING, st.booleans())
def test_any_backend_is_saved_or_refused_whole(name, document, whole):
    def write():
        if whole:
            return services.put_backend(name=name, document=document, change=CHANGE)
        return services.post_backend(name=name, changes=document, change=CHANGE)

    tried(write, same_again)


@pytest.mark.usefixtures("service")
@bounded
@given(part_of(LIMITS) | ANYTHING, st.booleans())
def test_any_limits_are_saved_and_readable_or_refused_whole(document, whole):
    def write():
        if whole:
            return services.put_workflow_config(document=document, change=CHANGE)
        return services.patch_workflow_config(changes=document, change=CHANGE)

    tried(write, lambda _saved: workflow_limits())
