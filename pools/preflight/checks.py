"""The checks: one table of pure rules, each from facts to one result, or none where it does not apply."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from pools.clusters.probe import missing
from pools.preflight.facts import CheckedPool, ClusterFacts, InstallationFacts
from pools.preflight.rights import (
    ACCOUNTS,
    COMMON,
    OPTIONAL_ROLES,
    OptionalRole,
    Right,
    account_of,
    rights_of,
)
from scheduling.backends.base import Purpose
from scheduling.capabilities import SchedulerVersion
from scheduling.preflight import CheckResult, CheckStatus, Unread, failed, passed, unknown
from scheduling.sentences import agree, count_of, plain_listing
from scheduling.topology.levels import CLIQUE_LABEL, CLIQUE_LABELS, HOSTNAME_LABEL, look_alike

CLOCK_SECONDS = 5.0
OLDEST_POSTGRES = 140000
CHANNEL_CLASS = "compute-domain-default-channel.nvidia.com"
NAMED = 5

LABELS_TO_OFFER = (
    CLIQUE_LABEL,
    "accelerator.topograph.run/domain",
    "fabric.topograph.run/tier-",
    "network.topology.nvidia.com/",
    "topology.k8s.aws/network-node-layer-",
    "cloud.google.com/gce-topology-",
    "oci.oraclecloud.com/rdma.",
)
"""Labels, or how they begin, that Topograph and clouds put on nodes to say where they stand."""

UNFIT_BROKERS = {
    "sentinel": "a Redis Sentinel, which carries no messages",
    "cluster": "a server of a Redis Cluster, which is not supported",
    "slave": "a replica, which cannot be written",
}
"""What a Redis may be that answers and takes no messages."""

ClusterCheck = Callable[[ClusterFacts], Iterator[CheckResult]]


def check_installation(facts: InstallationFacts) -> list[CheckResult]:
    """The results about the service's own servers."""
    return [
        _database(facts),
        _migrations(facts),
        _clock("database_clock", "The database", facts.clock),
        _broker(facts),
    ]


def check_cluster(facts: ClusterFacts) -> list[CheckResult]:
    """The results about one backend's cluster; one that does not answer leaves all but the first unknown."""
    results = [result for rule in CHECKS for result in rule(facts)]
    if facts.probe.reachable:
        return results
    return [results[0], *map(_unreached, results[1:])]


def _unreached(result: CheckResult) -> CheckResult:
    message = "It could not be read, because the cluster does not answer."
    return replace(
        result, status=CheckStatus.UNKNOWN, message=message, to_do="Make the cluster reachable first."
    )


def _database(facts: InstallationFacts) -> CheckResult:
    check = "database"
    if isinstance(facts.database, Unread):
        to_do = "Check OSMO_DATABASE_URL, and that PostgreSQL runs and accepts this process."
        return failed(check, f"The database does not answer: {facts.database.reason}.", to_do)
    version = f"{facts.database // 10000}.{facts.database % 10000}"
    if facts.database < OLDEST_POSTGRES:
        message = f"The database is PostgreSQL {version}, which is too old."
        return failed(check, message, f"Upgrade it to PostgreSQL {OLDEST_POSTGRES // 10000} or later.")
    if facts.bounded is False:
        message = (
            "The database bounds no statement: a pooler drops the limits with which the service connects."
        )
        to_do = "Set statement_timeout and idle_in_transaction_session_timeout for its user (ALTER ROLE)."
        return failed(check, message, to_do)
    return passed(check, f"PostgreSQL {version} answers.")


def _migrations(facts: InstallationFacts) -> CheckResult:
    check = "migrations"
    if isinstance(facts.pending, Unread):
        return unknown(
            check, f"Migrations could not be read: {facts.pending.reason}.", "Make the database answer first."
        )
    if facts.pending:
        count = count_of(len(facts.pending), "migration")
        message = f"{count} of this release {agree(len(facts.pending), 'is', 'are')} not applied."
        return failed(check, message, "Run manage.py migrate.")
    return passed(check, "All migrations of this release are applied.")


def _broker(facts: InstallationFacts) -> CheckResult:
    if isinstance(facts.broker, Unread):
        to_do = "Check OSMO_REDIS_URL, and that Redis runs and accepts this process."
        return failed("broker", f"The broker does not answer: {facts.broker.reason}.", to_do)
    if facts.broker in UNFIT_BROKERS:
        to_do = "Name one server that can be written, or a proxy or Service that follows the primary."
        return failed("broker", f"OSMO_REDIS_URL names {UNFIT_BROKERS[facts.broker]}.", to_do)
    return passed("broker", "The broker answers.")


def _clock(check: str, subject: str, clock: "float | Unread") -> CheckResult:
    if isinstance(clock, Unread):
        return unknown(check, f"{subject} gave no time: {clock.reason}.", "Make it answer first.")
    if abs(clock) > CLOCK_SECONDS:
        direction = "ahead of" if clock > 0 else "behind"
        message = f"{subject}'s clock is {abs(clock):.0f} s {direction} this machine's."
        return failed(check, message, "Synchronise both machines with a time server (NTP).")
    return passed(check, f"{subject}'s clock is within {CLOCK_SECONDS:.0f} s of this machine's.")


def _reachable(facts: ClusterFacts) -> Iterator[CheckResult]:
    check = "reachable"
    if not facts.probe.reachable:
        to_do = "Check the backend's kubeconfig and context, its credentials, and the way to the API server."
        yield failed(check, f"The cluster does not answer: {facts.probe.problem.rstrip('.')}.", to_do)
        return
    yield passed(check, f"Kubernetes {facts.probe.kubernetes_version} answers.")


def _scheduler(facts: ClusterFacts) -> Iterator[CheckResult]:
    check = "scheduler"
    probe = facts.probe
    if facts.scheduler is None:
        message = f'The scheduler backend "{facts.scheduler_type}" is not installed in this service.'
        yield failed(check, message, "Install its package, or give the backend another scheduler_type.")
    elif probe.refusal:
        to_do = "Install the scheduler in a supported version, or give the backend another scheduler_type."
        yield failed(check, probe.refusal, to_do)
    elif probe.doubt:
        to_do = "Grant the role osmo-topology-definitions of deploy/rbac/cluster.yaml."
        yield unknown(check, probe.doubt, to_do)
    else:
        version = f"{facts.scheduler_type} {probe.scheduler_version}".rstrip()
        yield passed(check, f"Scheduler {version} is supported.")


def _conformance(facts: ClusterFacts) -> Iterator[CheckResult]:
    check = "conformance"
    needed = [f for f in facts.probe.findings if f.purpose in (Purpose.SCHEDULER, Purpose.TOPOLOGY)]
    absent = list(dict.fromkeys(finding.how for finding in needed if finding.found is False))
    doubts = list(dict.fromkeys(f"{f.name}: {f.how}" for f in needed if f.found is None))
    if absent:
        message = f"The cluster would lose what the service writes: {plain_listing(absent, limit=NAMED)}."
        yield failed(
            check,
            message,
            "Install the scheduler's own CustomResourceDefinitions, or switch on its features.",
        )
    elif doubts:
        message = f"Not all that the service writes could be tried: {plain_listing(doubts, limit=NAMED)}."
        to_do = f"Create namespace {facts.namespace} and grant deploy/rbac/namespace.yaml in the cluster."
        yield unknown(check, message, to_do)
    else:
        yield passed(check, "The cluster keeps all that the service writes.")


def _compute_domains(facts: ClusterFacts) -> Iterator[CheckResult]:
    check = "compute_domains"
    to_do = "Install NVIDIA's DRA driver (with ComputeDomains), or switch NVLink off in these pools."
    wanting = _nvlink_pools(facts)
    findings = [{"purpose": f.purpose, "found": f.found, "how": f.how} for f in facts.probe.findings]
    absent = missing(findings, Purpose.NVLINK)
    if not facts.probe.compute_domains or absent:
        message = "The cluster does not serve ComputeDomains as the service writes them."
        if wanting:
            named = plain_listing([pool.name for pool in wanting], limit=NAMED)
            yield failed(check, f"{message} Pools with NVLink: {named}.", to_do)
        else:
            yield passed(
                check,
                f"{message} No pool needs them.",
                "Install NVIDIA's DRA driver before a pool uses NVLink.",
            )
        return
    yield passed(check, "The cluster serves ComputeDomains.")


def _device_class(facts: ClusterFacts) -> Iterator[CheckResult]:
    check = "device_class"
    if not _nvlink_pools(facts) and not facts.probe.compute_domains:
        return
    to_do = "Install NVIDIA's DRA driver with ComputeDomains enabled; it creates the class."
    if isinstance(facts.device_class, Unread):
        message = (
            f"Whether there is a DeviceClass {CHANNEL_CLASS} could not be read: {facts.device_class.reason}."
        )
        yield unknown(check, message, "Grant deploy/rbac/preflight.yaml.")
    elif facts.device_class:
        yield passed(check, f"DeviceClass {CHANNEL_CLASS} exists.")
    else:
        yield failed(check, f"There is no DeviceClass {CHANNEL_CLASS}, so no pod gets a channel.", to_do)


def _channels(facts: ClusterFacts) -> Iterator[CheckResult]:
    check = "channels"
    wanting = _nvlink_pools(facts)
    if not wanting:
        return
    if isinstance(facts.channels, Unread):
        message = f"The channels of nodes could not be read: {facts.channels.reason}."
        yield unknown(check, message, "Grant deploy/rbac/preflight.yaml.")
        return
    without = sorted({node for pool in wanting for node in pool.gpu_nodes} - facts.channels)
    if without:
        number, verb = count_of(len(without), "GPU node"), agree(len(without), "offers", "offer")
        named = plain_listing(without, limit=NAMED)
        message = f"{number} of pools with NVLink {verb} no channel: {named}."
        to_do = (
            "Check the DRA driver's kubelet plugin there, or take the nodes out by the pool's node_selector."
        )
        yield failed(check, message, to_do)
    else:
        yield passed(check, "Each GPU node of pools with NVLink offers a channel.")


def _clique(facts: ClusterFacts) -> Iterator[CheckResult]:
    check = "clique_label"
    wanting = [pool for pool in _nvlink_pools(facts) if pool.gpu_nodes]
    if not wanting:
        return
    bare = [pool.name for pool in wanting if not any(pool.labels.get(label) for label in CLIQUE_LABELS)]
    if bare:
        message = f"No node of {plain_listing(bare, limit=NAMED)} carries {CLIQUE_LABEL}."
        to_do = (
            "Run GPU Feature Discovery there (GPU operator: gfd.enabled=true) or, where the DRA driver has "
            "replaced it, set GPU_CLIQUE_LABEL_ENABLED=true on the driver's compute-domain plugin."
        )
        yield failed(check, message, to_do)
    else:
        yield passed(check, f"Nodes of pools with NVLink carry {CLIQUE_LABEL}.")


def _labels(facts: ClusterFacts) -> Iterator[CheckResult]:
    if isinstance(facts.pools, Unread):
        message = f"The nodes of pools are not known: {facts.pools.reason}."
        yield unknown("pool_labels", message, "Start the observer, which lists the nodes.")
        return
    for pool in facts.pools:
        yield _pool_labels(pool)
    if not facts.pools:
        yield passed("pool_labels", "No pool uses this backend yet.", "Create a pool.")


def _pool_labels(pool: CheckedPool) -> CheckResult:
    check = "pool_labels"
    if not pool.nodes:
        to_do = "Correct the pool's node_selector, or label the nodes."
        return failed(check, f'Pool "{pool.name}" has no node: none matches its node_selector.', to_do)
    carried = [label for label, count in pool.labels.items() if count]
    absent = [level.label for level in pool.levels if not pool.labels.get(level.label)]
    if absent:
        message = f'No node of pool "{pool.name}" carries {plain_listing(absent, limit=NAMED)}.'
        likely = {label: other for label in absent if (other := look_alike(label, carried))}
        if likely:
            pairs = [f"{label} is meant to be {other}" for label, other in likely.items()]
            return failed(
                check,
                message,
                f"Correct the pool's topology keys: probably {plain_listing(pairs, limit=NAMED)}.",
            )
        return failed(check, message, "Label the nodes, or take the key out of the pool.")
    partly = [
        f"{level.label} ({pool.nodes - pool.labels[level.label]} of {pool.nodes})"
        for level in pool.levels
        if pool.labels[level.label] < pool.nodes
    ]
    if partly:
        message = f'Some nodes of pool "{pool.name}" lack {plain_listing(partly, limit=NAMED)}.'
        return passed(check, message, "Label them, or no requirement on these keys sees them.")
    return passed(
        check, f'All {count_of(pool.nodes, "node")} of pool "{pool.name}" carry the labels of its keys.'
    )


def _suggestions(facts: ClusterFacts) -> Iterator[CheckResult]:
    """Labels of Topograph and clouds that no key uses."""
    for pool in facts.pools if not isinstance(facts.pools, Unread) else ():
        used = {level.label for level in pool.levels} | {HOSTNAME_LABEL}
        offered = sorted(
            label
            for label, count in pool.labels.items()
            if count and label.startswith(LABELS_TO_OFFER) and label not in used
        )
        if offered:
            message = f'Nodes of pool "{pool.name}" say where they stand by labels that no key uses.'
            named = plain_listing(offered, limit=NAMED)
            yield passed("unused_labels", message, f"Consider topology keys on {named}.")


def _rights(facts: ClusterFacts) -> Iterator[CheckResult]:
    check = "rights"
    unread = next((fact for fact in (facts.username, facts.rights) if isinstance(fact, Unread)), None)
    if unread or isinstance(facts.rights, Unread) or isinstance(facts.username, Unread):
        reason = unread.reason if unread else ""
        to_do = "Let the credentials review themselves (Kubernetes' role system:basic-user)."
        yield unknown(check, f"The rights of these credentials could not be read: {reason}.", to_do)
        return
    account = account_of(facts.username)
    subject = f"Account {account}" if account else f'User "{facts.username}"'
    accounts = (account,) if account else ACCOUNTS
    needed = {right for name in accounts for right in rights_of(name, optional=False)}
    absent = sorted(right for right in needed if not facts.rights.get(right))
    if absent:
        message = f"{subject} lacks {count_of(len(absent), 'right')}: {_listed(absent, facts.namespace)}."
        to_do = (
            f"Apply deploy/rbac/cluster.yaml, and deploy/rbac/namespace.yaml for namespace {facts.namespace}."
        )
        yield failed(check, message, to_do)
    else:
        yield passed(check, f"{subject} has the {count_of(len(needed), 'right')} that it needs.")
    yield from _other_rights(facts, account)


def _optional_roles(facts: ClusterFacts) -> Iterator[CheckResult]:
    """The rights that only some backends need, of those that this one was asked for."""
    username = "" if isinstance(facts.username, Unread) else facts.username
    for role in OPTIONAL_ROLES:
        if account_of(username) in ("", *role.accounts):
            yield from _optional_role(facts, role)


def _optional_role(facts: ClusterFacts, role: OptionalRole) -> Iterator[CheckResult]:
    rights = {} if isinstance(facts.rights, Unread) else facts.rights
    needed = sorted(role.rights() & rights.keys())
    if COMMON.issuperset(needed):
        return
    if absent := [right for right in needed if not rights[right]]:
        message = (
            f"{role.lacking}: {_listed(absent, facts.namespace)} {agree(len(absent), 'is', 'are')} missing."
        )
        yield failed(role.check, message, f"Apply deploy/rbac/{role.file}, or {role.instead}.")
    else:
        yield passed(role.check, f"{role.granted}.")


_WITHOUT_RIGHT = {
    "pods": (
        "The usage of other tenants' pods is not known and counts as free.",
        "Grant the role osmo-topology-others to the observer.",
    ),
    "resourcequotas": (
        "Quotas of the namespace show only as refusals of pods.",
        "Apply deploy/rbac/namespace.yaml anew.",
    ),
}


def _other_rights(facts: ClusterFacts, account: str) -> Iterator[CheckResult]:
    """The rights that can be done without, and those of the other processes."""
    accounts = (account,) if account else ACCOUNTS
    optional = {right for name in accounts for right in rights_of(name, optional=True)}
    rights = {} if isinstance(facts.rights, Unread) else facts.rights
    for resource in sorted({right.resource for right in optional if not rights.get(right)}):
        yield passed("optional_rights", *_WITHOUT_RIGHT[resource])
    if account:
        others = plain_listing([name for name in ACCOUNTS if name != account], limit=NAMED)
        message = f"This process acts as {account}, so the rights of {others} are not known."
        yield unknown("other_rights", message, "Run the preflight in these processes too.")


def _listed(rights: Sequence[Right], namespace: str) -> str:
    texts = [f"{right} in {namespace}" if right.in_namespace else str(right) for right in rights]
    return plain_listing(texts, limit=NAMED)


def _installed(facts: ClusterFacts) -> Iterator[CheckResult]:
    """What the scheduler backend says of its scheduler's installation."""
    if facts.scheduler is not None and facts.scheduler.installation is not None:
        version = facts.probe.kubernetes_version or "0.0"
        yield from facts.scheduler.installation.check_installation(
            facts.installed,
            kubernetes=SchedulerVersion.parse(version),
            scheduler_name=facts.scheduler_name,
            shard=facts.shard,
        )


def _cluster_clock(facts: ClusterFacts) -> Iterator[CheckResult]:
    yield _clock("cluster_clock", "The cluster", facts.clock)


def _nvlink_pools(facts: ClusterFacts) -> list[CheckedPool]:
    return [] if isinstance(facts.pools, Unread) else [pool for pool in facts.pools if pool.nvlink]


CHECKS: tuple[ClusterCheck, ...] = (
    _reachable,
    _cluster_clock,
    _rights,
    _optional_roles,
    _scheduler,
    _conformance,
    _installed,
    _compute_domains,
    _device_class,
    _channels,
    _labels,
    _clique,
    _suggestions,
)
"""The checks of a cluster, in the order of the report; reachability first."""
