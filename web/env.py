"""Every setting that comes from the environment, typed, with all mistakes reported at once.

Names are the field names in capitals behind ``OSMO_``. Nothing else in the product reads the
environment. ``DATABASE_URL``, ``REDIS_URL`` and ``KUBECONFIG`` are ignored on purpose: a variable
exported for another program must not point this one at somebody's server.

A setting that is not in the environment may be a file of its name in the directory ``OSMO_SECRETS_DIR``, as
a mounted Secret is. Users and passwords of servers may stand apart from the address, so that nobody must
quote their special characters.
"""

import os
import re
from collections.abc import Iterator, Mapping
from functools import cache
from importlib.util import find_spec
from ipaddress import IPv4Network, IPv6Network
from pathlib import Path
from typing import Any, Literal, Self
from urllib.parse import quote, urlsplit

from pydantic import Field, PostgresDsn, SecretStr, model_validator
from pydantic_settings import BaseSettings, SettingsConfigDict

from web.origins import is_origin
from web.policy import NAME

SECRETS_DIRECTORY = "OSMO_SECRETS_DIR"
REFUSED = 78
"""Exit code (EX_CONFIG) of a command that would be refused again: a Job ends with it and tries no more."""
_DEVELOPMENT_MARK = "development-only-"
DEVELOPMENT_KEY = _DEVELOPMENT_MARK + "x" * 40
_LOOPBACK_HOSTS = {"127.0.0.1", "localhost", "[::1]"}
_SECRET_LENGTH = 32
_DOMAIN = re.compile(r"[a-z0-9]([a-z0-9-]*[a-z0-9])?(\.[a-z0-9]([a-z0-9-]*[a-z0-9])?)+", re.ASCII)
PUBLIC_KEY_ALGORITHMS = frozenset(
    {"RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA"}
)
"""Signatures that are verified with a key which is no secret."""
SENTINEL = "sentinel://"
_BROKERS = ("redis://", "rediss://", "redis+socket://", "memory://", SENTINEL)
_VERSION = r"^(\d{1,6}\.\d{1,6}\.\d{1,6})?$"


class Environment(BaseSettings):
    """Settings of one process."""

    model_config = SettingsConfigDict(
        env_prefix="OSMO_",
        extra="ignore",
        secrets_dir=None,
        hide_input_in_errors=True,  # the input of a refused start holds the key and the secrets
    )

    env: Literal["production", "development"] = Field(
        default="production", description="development is for one machine; see development_login."
    )
    development_login: bool | None = Field(
        default=None,
        description="Accept the x-osmo-user header as a login, from this machine; by default in development.",
    )
    trusted_proxy_secrets: list[SecretStr] = Field(
        default=[], description="What a gateway proves itself with; any of them (JSON list)."
    )
    trusted_proxy_networks: list[IPv4Network | IPv6Network] = Field(
        default=[], description="Where a gateway's connections come from (JSON list)."
    )
    forwarded_for_networks: list[IPv4Network | IPv6Network] = Field(
        default=[],
        description="Networks of proxies whose X-Forwarded-For counts, nothing else of theirs (JSON list).",
    )
    default_roles: list[str] = Field(
        default=["osmo-user"], description="Roles of users to whom none is assigned (JSON list)."
    )
    submits_per_minute: int = Field(default=600, ge=0, description="Submissions of one user; 0: no limit.")
    address_submits_per_minute: int = Field(
        default=3000, ge=0, description="Submissions from one address; 0: no limit."
    )
    logins_per_minute: int = Field(
        default=20,
        ge=0,
        description="Failed logins with one name from one address; logins and tokens of a user; 0: no limit.",
    )
    address_logins_per_minute: int = Field(
        default=60, ge=0, description="The same from one address, all names together; 0: no limit."
    )
    secret_key: str = Field(default="", description="Django's signing key; required in production.")
    database_url: PostgresDsn = Field(
        default=PostgresDsn("postgresql://osmo@127.0.0.1:5432/osmo"), description="PostgreSQL."
    )
    database_user: str = Field(default="", description="PostgreSQL's user, in place of the address's.")
    database_password: SecretStr = Field(
        default=SecretStr(""), description="That user's password, as it is: nothing is quoted."
    )
    redis_url: str = Field(default="redis://127.0.0.1:6379/0", description="Celery's broker.")
    redis_user: str = Field(default="", description="Redis' user, in place of the address's.")
    redis_password: SecretStr = Field(
        default=SecretStr(""), description="The password of Redis, as it is: nothing is quoted."
    )
    redis_sentinel_primary: str = Field(
        default="", description="The name of the primary that the Sentinels of the address watch."
    )
    redis_sentinel_password: SecretStr = Field(
        default=SecretStr(""), description="The Sentinels' own password, if they have one."
    )
    allowed_hosts: list[str] = Field(
        default=["127.0.0.1", "localhost", "[::1]"], description="Host headers that are answered (JSON list)."
    )
    csrf_trusted_origins: list[str] = Field(
        default=[], description="Origins of the admin behind a proxy (JSON list)."
    )
    service_url: str = Field(default="", description="Public base address, for links in replies.")
    log_format: Literal["json", "console"] = Field(default="json", description="Shape of log lines.")
    log_level: Literal["DEBUG", "INFO", "WARNING", "ERROR"] = "INFO"
    database_connections_age: int = Field(
        default=60, ge=0, description="Seconds a web or worker thread keeps its connection."
    )
    database_statement_seconds: int = Field(
        default=30, ge=5, description="Longest a statement of the service may take."
    )
    migration_statement_seconds: float = Field(
        default=60.0, gt=0, description="Longest a statement of a migration may take."
    )
    token_days: int = Field(default=90, ge=1, description="Days until a personal token expires.")
    jwt_seconds: int = Field(
        default=900, ge=60, le=86_400, description="How long a login of OSMO's client lives."
    )
    jwt_secrets: list[SecretStr] = Field(
        default=[], description="Keys of those logins; the first signs, all verify (JSON list)."
    )
    oidc_issuer: str = Field(default="", description="The identity provider's issuer, an https address.")
    oidc_ca_file: str = Field(
        default="", description="PEM file of the authorities that the provider's certificate is verified by."
    )
    oidc_algorithms: list[str] = Field(
        default=["RS256", "ES256"], description="Accepted signatures of its tokens (JSON list)."
    )
    oidc_device_client_id: str = Field(
        default="", description="Client of osmo login --method code, a public one."
    )
    oidc_browser_client_id: str = Field(
        default="", description="Client of osmo login --method pkce, a public one."
    )
    oidc_audiences: list[str] = Field(
        default=[], description="Further audiences whose tokens are accepted as bearers (JSON list)."
    )
    oidc_pages_client_id: str = Field(default="", description="Client of the pages and the admin.")
    oidc_pages_client_secret: SecretStr = Field(
        default=SecretStr(""), description="Its secret, if it has one."
    )
    oidc_scopes: list[str] = Field(
        default=["openid", "profile"], description="Scopes that the pages request (JSON list)."
    )
    oidc_session_seconds: int = Field(
        default=28_800, ge=60, description="How long a login of the pages lives."
    )
    oidc_user_claim: str = Field(
        default="preferred_username", min_length=1, description="Claim with the user's name."
    )
    oidc_groups_claim: str = Field(
        default="groups", min_length=1, description="Claim with the user's groups; dots for nested ones."
    )
    oidc_group_roles: dict[str, list[str]] = Field(
        default={}, description="Roles of the members of groups (JSON object of lists)."
    )
    client_minimum_version: str = Field(
        default="", pattern=_VERSION, description="OSMO clients older than this are refused."
    )
    client_latest_version: str = Field(
        default="", pattern=_VERSION, description="OSMO clients older than this get a hint to update."
    )
    pod_label_domains: list[str] = Field(
        default=[],
        description="Domains of labels that users may set on pods, with their subdomains (JSON list); labels "
        "without a domain need none.",
    )
    max_body_bytes: int = Field(default=8 * 2**20, ge=1024, description="Largest request body.")
    ready_after_workers: bool = Field(
        default=False,
        description="Web becomes ready once a worker of its release or a later one has reported.",
    )
    web_threads: int = Field(
        default=8, ge=1, description="Threads of one web process; each keeps a database connection."
    )
    web_queue: int = Field(
        default=100,
        ge=0,
        description="Most requests of one web process that wait for a thread; others get 503.",
    )
    expensive_requests: int = Field(
        default=2,
        ge=1,
        description="Templates, large documents, imports, what-if questions and pieces of long answers that "
        "one web process works on at a time, one of a user.",
    )
    address_connections: int = Field(
        default=1000,
        ge=1,
        description="Most from one address that wait for their client; not from networks of proxies.",
    )
    order_search_seconds: float = Field(
        default=6.0,
        ge=0,
        description="Processor time of each minute for seeking orders of a cluster's waiting gangs; 0: none.",
    )
    scheduler_disagrees_seconds: float = Field(
        default=300.0,
        gt=0,
        description="A group that has fitted for so long, and that its scheduler has not placed, gets the "
        "condition SchedulerDisagrees.",
    )
    observer_clusters: int = Field(
        default=0, ge=0, description="Most clusters that one observer follows; 0: all that no other follows."
    )
    topology_config_file: str = Field(
        default="", description="A file that is the source of configuration; all other writes are refused."
    )
    kubeconfig_paths: list[str] = Field(
        default=["/etc/osmo-topology/clusters", "/etc/osmo"],
        description="Directories below which kubeconfigs and the files that they name lie, or single files "
        "(JSON list).",
    )
    suspect_window_seconds: int = Field(
        default=21_600,
        ge=60,
        le=2_592_000,
        description="Seconds within which groups of two users must be lost on a node that becomes suspect.",
    )
    suspect_seconds: int = Field(
        default=86_400,
        ge=60,
        le=31_536_000,
        description="Seconds after which a suspect node that does not fail again is trusted.",
    )

    backlog_groups: int = Field(
        default=10_000,
        ge=1,
        description="Most task groups of all pools that wait for workers to create them.",
    )
    pool_backlog_groups: int = Field(
        default=5_000,
        ge=1,
        description="The same of one pool; beyond it users with more than an even share get 429.",
    )
    metrics_host: str = Field(
        default="127.0.0.1", description="Address on which worker, observer and beat show their metrics."
    )
    metrics_port: int = Field(
        default=0, ge=0, le=65535, description="Its port; 0 for none. Web shows its own at /metrics."
    )
    metrics_prefix: str = Field(
        default="osmo_topology_",  # OSMO's own begin with osmo_
        pattern=r"^[a-zA-Z_][a-zA-Z0-9_]*_$",
        description="What names of metrics begin with.",
    )
    metrics_token: str = Field(
        default="", description="What a scrape must bear; without it web shows no metrics at all."
    )

    log_store: str = Field(
        default="file:///var/lib/osmo-topology/logs",
        description="Where logs are kept once their pods are gone: file:///directory or s3://bucket/prefix.",
    )
    log_endpoint: str = Field(
        default="", description="Address of a store that speaks S3 and is not Amazon's."
    )
    log_bytes: int = Field(
        default=2**20, ge=4096, le=32 * 2**20, description="Most that is kept of one task's log."
    )
    log_total_bytes: int = Field(
        default=10 * 2**30,
        ge=0,
        description="Most that all kept logs take, compressed; beyond it those with most lose their oldest.",
    )
    log_days: float = Field(default=30.0, gt=0, description="How long a log is kept.")
    log_followers: int = Field(
        default=1000, ge=1, description="Most requests of one web process that follow logs."
    )
    log_user_followers: int = Field(default=20, ge=1, description="The same of one user.")
    log_follow_seconds: float = Field(
        default=3600.0, gt=0, description="Longest a request follows logs of a workflow, or watches it."
    )
    watchers: int = Field(
        default=1000, ge=1, description="Most requests of one web process that watch workflows."
    )
    user_watchers: int = Field(default=20, ge=1, description="The same of one user.")

    sessions: int = Field(
        default=500, ge=1, description="Most sessions in tasks (exec) that one web process holds."
    )
    user_sessions: int = Field(
        default=10, ge=1, description="Most sessions in tasks of one user in all web processes."
    )
    pool_sessions: int = Field(default=100, ge=1, description="The same in one pool.")
    session_idle_seconds: float = Field(
        default=3600.0, ge=0, description="Seconds without a byte after which a session ends; 0: never."
    )
    session_life_seconds: float = Field(
        default=28_800.0,
        gt=0,
        description="Longest session in a task of a caller whose login the service cannot see end: of a "
        "gateway, or by a token of the identity provider.",
    )

    barrier_image: str = Field(
        default="",
        pattern=r"^\S*$",
        description="Image of the start barrier where a backend names none; empty: none there.",
    )
    workflow_days: float = Field(
        default=90.0, ge=0, description="Days for which ended workflows are kept; 0: for ever."
    )
    revision_days: float = Field(
        default=365.0,
        ge=0,
        description="Days for which replaced revisions of configuration are kept; 0: for ever.",
    )
    document_bytes: int = Field(
        default=4 * 2**20, ge=4096, description="Most bytes of a workflow's text, as sent and as rendered."
    )
    user_bytes_per_day: int = Field(
        default=2 * 2**30, ge=0, description="Bytes of one user's workflows that a day adds; 0: no limit."
    )

    notify_hosts: list[str] = Field(
        default=[],
        description="Where users may have news sent, such as https://hooks.example.org or mailto:example.org "
        "(JSON list). http is only for what stands here, for pools too.",
    )
    notify_networks: list[IPv4Network | IPv6Network] = Field(
        default=[], description="Networks that are not public and that webhooks may lead into (JSON list)."
    )
    notify_secrets: dict[str, SecretStr] = Field(
        default={}, description="Keys by name with which webhooks of pools are signed (JSON object)."
    )
    email_host: str = Field(default="", description="The server that sends e-mail; empty: none is sent.")
    email_port: int = Field(default=587, ge=1, le=65535, description="Its port.")
    email_security: Literal["starttls", "tls", "none"] = Field(
        default="starttls", description="How the connection to it is protected."
    )
    email_user: str = Field(default="", description="Its user; empty: no login.")
    email_password: SecretStr = Field(default=SecretStr(""), description="That user's password.")
    email_from: str = Field(default="osmo-topology@localhost", description="The sender of e-mail.")

    crash_points: str = Field(
        default="", description="A directory in which the fault harness arms crashes; only in development."
    )

    @property
    def broker_url(self) -> str:
        """The address of Redis, or of its Sentinels, with the user and password that stand apart from it."""
        user, password = self.redis_user, self.redis_password.get_secret_value()
        if not (user or password):
            return self.redis_url
        first, separator, further = self.redis_url.partition(";")
        parts = urlsplit(first)
        server = parts.netloc.rpartition("@")[2]
        user = quote(user, safe="") or (parts.username or "")
        password = quote(password, safe="") or (parts.password or "")
        return parts._replace(netloc=f"{user}:{password}@{server}").geturl() + separator + further

    def sentinel_options(self, limits: Mapping[str, float]) -> dict[str, Any]:
        """What Celery's client needs to ask Sentinels, if it does; ``limits`` bound those connections."""
        if not self.redis_sentinel_primary:
            return {}
        password = self.redis_sentinel_password.get_secret_value()
        own = {"password": password} if password else {}
        return {"master_name": self.redis_sentinel_primary, "sentinel_kwargs": {**limits, **own}}

    @property
    def reached_by_tls(self) -> bool:
        """Whether browsers reach the service by TLS, so that its cookies may insist on it."""
        return self.service_url.lower().startswith("https://")

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        """Check what depends on several variables, and report all faults at once, without values."""
        own = list(_production_faults(self) if self.env == "production" else _development_faults(self))
        if self.topology_config_file and not self.topology_config_file.startswith("/"):
            own.append("OSMO_TOPOLOGY_CONFIG_FILE must be an absolute path")
        if not all(path.startswith("/") for path in self.kubeconfig_paths):
            own.append("OSMO_KUBECONFIG_PATHS must be absolute paths")
        faults = (
            *(_access_faults, _identity_faults, _label_faults),
            *(_log_faults, _news_faults, _retention_faults, _server_faults),
        )
        if wrong := [*own, *(sentence for check in faults for sentence in check(self))]:
            raise ValueError("; ".join(wrong))
        return self


def _production_faults(env: Environment) -> Iterator[str]:
    """No switch of development may be on."""
    if len(env.secret_key) < _SECRET_LENGTH:
        yield f"OSMO_SECRET_KEY must be set to at least {_SECRET_LENGTH} characters in production"
    if env.secret_key.startswith(_DEVELOPMENT_MARK):
        yield "OSMO_SECRET_KEY is that of development: make a new one"
    if env.development_login:
        yield "OSMO_DEVELOPMENT_LOGIN is for OSMO_ENV=development only: unset it"
    if env.crash_points:
        yield "OSMO_CRASH_POINTS lets processes kill themselves and is refused in production"


def _development_faults(env: Environment) -> Iterator[str]:
    """An installation with hosts or a gateway serves others, so a bare header must not log in."""
    if strange := sorted(set(env.allowed_hosts) - _LOOPBACK_HOSTS):
        yield f"OSMO_ALLOWED_HOSTS has {', '.join(strange)}: OSMO_ENV=development answers this machine only"
    if env.trusted_proxy_secrets or env.trusted_proxy_networks:
        yield "OSMO_TRUSTED_PROXY_SECRETS and _NETWORKS are for OSMO_ENV=production only: unset them"


def _access_faults(env: Environment) -> Iterator[str]:
    if any(len(secret.get_secret_value()) < _SECRET_LENGTH for secret in env.trusted_proxy_secrets):
        yield f"OSMO_TRUSTED_PROXY_SECRETS: each of at least {_SECRET_LENGTH} characters"
    if any(len(secret.get_secret_value()) < _SECRET_LENGTH for secret in env.jwt_secrets):
        yield f"OSMO_JWT_SECRETS: each of at least {_SECRET_LENGTH} characters"
    if any(network.prefixlen == 0 for network in env.trusted_proxy_networks):
        yield "OSMO_TRUSTED_PROXY_NETWORKS: a network that holds every address trusts everybody"
    if any(network.prefixlen == 0 for network in env.forwarded_for_networks):
        yield "OSMO_FORWARDED_FOR_NETWORKS: a network that holds every address lets callers choose theirs"
    if strange := [role for role in env.default_roles if not NAME.fullmatch(role)]:
        yield f"OSMO_DEFAULT_ROLES: {', '.join(strange)} is no role's name"


def _identity_faults(env: Environment) -> Iterator[str]:
    """The identity provider is reached by TLS, and nothing of it is set without it."""
    parts = urlsplit(env.oidc_issuer)
    if env.oidc_issuer and (parts.scheme != "https" or not parts.netloc or parts.query or parts.fragment):
        yield "OSMO_OIDC_ISSUER must be an https address without a query"
    clients = (env.oidc_device_client_id, env.oidc_browser_client_id, env.oidc_pages_client_id)
    if not env.oidc_issuer and any((*clients, env.oidc_audiences, env.oidc_group_roles)):
        yield "OSMO_OIDC_ clients, audiences and roles need OSMO_OIDC_ISSUER"
    if env.oidc_pages_client_id and not env.service_url.startswith(("http://", "https://")):
        yield "OSMO_OIDC_PAGES_CLIENT_ID needs OSMO_SERVICE_URL, to which the provider sends browsers back"
    if env.oidc_ca_file and not Path(env.oidc_ca_file).is_file():
        yield "OSMO_OIDC_CA_FILE names no file"
    if "openid" not in env.oidc_scopes:
        yield "OSMO_OIDC_SCOPES must have openid"
    if not env.oidc_algorithms or set(env.oidc_algorithms) - PUBLIC_KEY_ALGORITHMS:
        yield f"OSMO_OIDC_ALGORITHMS: some of {', '.join(sorted(PUBLIC_KEY_ALGORITHMS))}"
    if any(not NAME.fullmatch(role) for roles in env.oidc_group_roles.values() for role in roles):
        yield "OSMO_OIDC_GROUP_ROLES: a list of names of roles for each group"


def _label_faults(env: Environment) -> Iterator[str]:
    if wrong := [domain for domain in env.pod_label_domains if not _DOMAIN.fullmatch(domain)]:
        yield f"OSMO_POD_LABEL_DOMAINS: {', '.join(wrong)} is no domain of at least two parts"


def _log_faults(env: Environment) -> Iterator[str]:
    parts = urlsplit(env.log_store)
    if parts.scheme == "s3":
        if not parts.netloc or parts.query:
            yield "OSMO_LOG_STORE: s3://bucket or s3://bucket/prefix"
        if find_spec("boto3") is None:
            yield "OSMO_LOG_STORE names a bucket: install the extra s3"
    elif parts.scheme != "file" or parts.netloc or not parts.path.startswith("/"):
        yield "OSMO_LOG_STORE: file:///directory or s3://bucket/prefix"
    if env.log_endpoint and parts.scheme != "s3":
        yield "OSMO_LOG_ENDPOINT is for a bucket: set OSMO_LOG_STORE to s3://bucket"


def _news_faults(env: Environment) -> Iterator[str]:
    if wrong := [origin for origin in env.notify_hosts if not is_origin(origin)]:
        yield (
            f"OSMO_NOTIFY_HOSTS: {', '.join(wrong)} is not of the form https://host, http://host:port or "
            "mailto:domain, in small letters, without the port that the scheme has anyway"
        )
    if any(network.prefixlen == 0 for network in env.notify_networks):
        yield "OSMO_NOTIFY_NETWORKS: a network that holds every address has the cluster's own in it"
    if any(len(secret.get_secret_value()) < _SECRET_LENGTH for secret in env.notify_secrets.values()):
        yield f"OSMO_NOTIFY_SECRETS: each of at least {_SECRET_LENGTH} characters"
    if not re.fullmatch(r"[^@\s<>]+@[^@\s<>]+", env.email_from):
        yield "OSMO_EMAIL_FROM is no address"


def _retention_faults(env: Environment) -> Iterator[str]:
    """A repeated request must find the workflow of its idempotency key for a day at least."""
    if 0 < env.workflow_days < 1:
        yield "OSMO_WORKFLOW_DAYS: 0 for ever, or at least 1"


def _server_faults(env: Environment) -> Iterator[str]:
    addresses = env.redis_url.split(";")
    asks_sentinels = env.redis_url.startswith(SENTINEL)
    if not env.redis_url.startswith(_BROKERS) or (
        len(addresses) > 1 and not all(address.startswith(SENTINEL) for address in addresses)
    ):
        yield (
            "OSMO_REDIS_URL: the address of one Redis, redis://, rediss:// (TLS) or redis+socket://, or of "
            "each Sentinel, sentinel://a:26379;sentinel://b:26379. Redis Cluster is not supported"
        )
    if asks_sentinels != bool(env.redis_sentinel_primary):
        yield "OSMO_REDIS_SENTINEL_PRIMARY: with addresses of Sentinels in OSMO_REDIS_URL, and only then"
    if env.redis_url.startswith("redis+socket:") and (
        env.redis_user or env.redis_password.get_secret_value()
    ):
        yield "OSMO_REDIS_USER and OSMO_REDIS_PASSWORD: the address of a socket has its own"


@cache
def environment() -> Environment:
    """Return this process's settings; raises pydantic's ValidationError naming every wrong variable."""
    return read_environment(os.environ.get(SECRETS_DIRECTORY))


def read_environment(secrets_directory: str | None) -> Environment:
    """Read the settings; a directory of files that is not there refuses the start."""
    if not secrets_directory:
        return Environment()
    if not Path(secrets_directory).is_dir():
        raise ValueError(f"{SECRETS_DIRECTORY} names {secrets_directory}, which is no directory")
    return Environment(_secrets_dir=secrets_directory)
