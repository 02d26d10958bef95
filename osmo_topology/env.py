"""Every setting that comes from the environment, typed, with all mistakes reported at once.

Names are the field names in capitals behind ``OSMO_``. Nothing else in the product reads the
environment. ``DATABASE_URL``, ``REDIS_URL`` and ``KUBECONFIG`` are ignored on purpose: a variable
exported for another program must not point this one at somebody's server.
"""

from functools import cache
from typing import Literal, Self

from pydantic import Field, PostgresDsn, model_validator
from pydantic_settings import BaseSettings, SettingsConfigDict


class Environment(BaseSettings):
    """Settings of one process."""

    model_config = SettingsConfigDict(env_prefix="OSMO_", extra="ignore", secrets_dir=None)

    env: Literal["production", "development"] = Field(
        default="production", description="development also accepts the x-osmo-user header as a login."
    )
    secret_key: str = Field(default="", description="Django's signing key; required in production.")
    database_url: PostgresDsn = Field(
        default=PostgresDsn("postgresql://osmo@127.0.0.1:5432/osmo"), description="PostgreSQL."
    )
    redis_url: str = Field(default="redis://127.0.0.1:6379/0", description="Celery's broker.")
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
    migration_lock_seconds: float = Field(
        default=4.0, gt=0, description="Longest a migration waits for a lock before it lets others pass."
    )
    migration_statement_seconds: float = Field(
        default=60.0, gt=0, description="Longest a statement of a migration may take."
    )
    token_days: int = Field(default=90, ge=1, description="Days until a personal token expires.")
    max_body_bytes: int = Field(default=8 * 2**20, ge=1024, description="Largest request body.")
    spec_depth: int = Field(default=50, ge=10, description="Deepest nesting of a workflow's YAML.")
    spec_aliases: int = Field(default=20_000, ge=0, description="Most YAML aliases in a workflow.")
    spec_values: int = Field(
        default=1_000_000, ge=1000, description="Most values in a workflow, aliases followed."
    )
    template_cpu_seconds: int = Field(default=2, ge=1, description="CPU time a template may take to render.")
    template_seconds: float = Field(default=10.0, gt=0, description="Time a template may take to render.")
    template_memory_bytes: int = Field(
        default=256 * 2**20, ge=64 * 2**20, description="Memory a template may take to render."
    )
    sweep_seconds: float = Field(default=2.0, gt=0, description="How often due task groups are looked for.")
    sync_seconds: float = Field(
        default=5.0, gt=0, description="How often pools' queues and topologies are brought in line."
    )
    probe_seconds: float = Field(default=15.0, gt=0, description="How often backends are probed.")
    lease_seconds: float = Field(
        default=45.0, ge=40, description="How long a worker owns a task group; a killed one's wait this long."
    )

    crash_points: str = Field(
        default="", description="A directory in which the fault harness arms crashes; only in development."
    )

    @model_validator(mode="after")
    def _production_dies_for_nobody(self) -> Self:
        if self.env == "production" and self.crash_points:
            raise ValueError("OSMO_CRASH_POINTS lets processes kill themselves and is refused in production")
        return self

    @model_validator(mode="after")
    def _production_needs_a_key(self) -> Self:
        if self.env == "production" and len(self.secret_key) < 32:
            raise ValueError("OSMO_SECRET_KEY must be set to at least 32 characters in production")
        return self


@cache
def environment() -> Environment:
    """Return this process's settings; raises pydantic's ValidationError naming every wrong variable."""
    return Environment()
