"""Django settings; everything that differs between places comes from ``env``."""

from logging import DEBUG as DEBUG_LEVEL
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

from django.templatetags.static import static

from web.env import DEVELOPMENT_KEY, environment
from web.identity.configuration import provider_settings
from web.operation import periodic
from web.operation.logging import configure_logging
from web.release import VERSION

ENV = environment()

SECRET_KEY = ENV.secret_key or DEVELOPMENT_KEY
DEBUG = False
DEVELOPMENT_LOGIN = ENV.env == "development" and ENV.development_login is not False
TRUSTED_PROXY_SECRETS = [secret.get_secret_value() for secret in ENV.trusted_proxy_secrets]
TRUSTED_PROXY_NETWORKS = ENV.trusted_proxy_networks
FORWARDED_FOR_NETWORKS = ENV.forwarded_for_networks
DEFAULT_ROLES = ENV.default_roles
SUBMITS_PER_MINUTE = ENV.submits_per_minute
ADDRESS_SUBMITS_PER_MINUTE = ENV.address_submits_per_minute
LOGINS_PER_MINUTE = ENV.logins_per_minute
ADDRESS_LOGINS_PER_MINUTE = ENV.address_logins_per_minute
CLIENT_MINIMUM_VERSION = ENV.client_minimum_version
CLIENT_LATEST_VERSION = ENV.client_latest_version
JWT_SECRETS = [secret.get_secret_value() for secret in ENV.jwt_secrets]
JWT_SECONDS = ENV.jwt_seconds
IDENTITY_PROVIDER = provider_settings(ENV)
ALLOWED_HOSTS = ENV.allowed_hosts
CSRF_TRUSTED_ORIGINS = ENV.csrf_trusted_origins

INSTALLED_APPS = [
    "pools",  # before unfold, some of whose templates it replaces
    "unfold",
    "django.contrib.admin.apps.SimpleAdminConfig",  # ``urls`` loads the pages: other processes serve none
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "django.contrib.messages",
    "django.contrib.staticfiles",
    "django.contrib.postgres",
    "rest_framework",
    "knox",
    "drf_spectacular",
    "drf_spectacular_sidecar",
    "django_structlog",
    "web",
    "workflows",
    "doctor",
    "whatif",
    "pages",
]

MIDDLEWARE = [
    "web.operation.metrics.RequestMetricsMiddleware",
    "django.middleware.security.SecurityMiddleware",
    "whitenoise.middleware.WhiteNoiseMiddleware",
    "web.rest.middleware.RequestIdMiddleware",
    "web.views.version.ClientVersionMiddleware",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "web.rest.middleware.HostMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "web.identity.sessions.SessionUserMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
    "django.middleware.clickjacking.XFrameOptionsMiddleware",
    "web.rest.middleware.RequestLogMiddleware",
]

# the id is ours by then: RequestIdMiddleware has looked at the caller's
DJANGO_STRUCTLOG_TRUST_UPSTREAM_REQUEST_ID = True

ROOT_URLCONF = "osmo_topology.urls"
WSGI_APPLICATION = "osmo_topology.wsgi.application"
APPEND_SLASH = False

TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "DIRS": [],
        "APP_DIRS": True,
        "OPTIONS": {
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
            ]
        },
    }
]


def _database(url: str) -> dict[str, Any]:
    """Django's settings for a PostgreSQL URL; ``?host=/dir`` names a socket directory, as in libpq.

    Parameters of TLS (``sslmode``, ``sslrootcert`` and the like) are passed to libpq, and so are several
    hosts with ``target_session_attrs``, of which libpq takes the first that serves.
    """
    parts = urlsplit(url)
    query = {name: values[0] for name, values in parse_qs(parts.query).items()}
    servers = [urlsplit(f"//{server}") for server in parts.netloc.rpartition("@")[2].split(",")]
    return {
        "ENGINE": "django.db.backends.postgresql",
        "NAME": unquote(parts.path.lstrip("/")),
        "USER": ENV.database_user or unquote(parts.username or ""),
        "PASSWORD": ENV.database_password.get_secret_value() or unquote(parts.password or ""),
        "HOST": query.get("host") or ",".join(server.hostname or "" for server in servers),
        "PORT": ",".join(str(server.port or "") for server in servers),
        "CONN_MAX_AGE": ENV.database_connections_age,
        "CONN_HEALTH_CHECKS": True,
        "OPTIONS": {
            "options": f"-c statement_timeout={ENV.database_statement_seconds * 1000} "
            "-c idle_in_transaction_session_timeout=60000",
            **{
                name: value
                for name, value in query.items()
                if name.startswith("ssl") or name == "target_session_attrs"
            },
        },
    }


DATABASES = {"default": _database(str(ENV.database_url))}
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
MIGRATION_MODULES = {
    "doctor": "migrations.doctor",
    "knox": None,  # its table is ours (web.PersonalToken); one of its own would only stand empty
    "pools": "migrations.pools",
    "web": "migrations.web",
    "workflows": "migrations.workflows",
}

LANGUAGE_CODE = "en"
TIME_ZONE = "UTC"
USE_TZ = True
FORMAT_MODULE_PATH = "osmo_topology.locale_formats"

STATIC_URL = "/static/"
WHITENOISE_USE_FINDERS = True  # served from the packages themselves: nothing to collect, nothing to go stale
STORAGES = {
    "default": {"BACKEND": "django.core.files.storage.FileSystemStorage"},
    "staticfiles": {"BACKEND": "django.contrib.staticfiles.storage.StaticFilesStorage"},
}

DATA_UPLOAD_MAX_MEMORY_SIZE = ENV.max_body_bytes
SESSION_COOKIE_HTTPONLY = True
SESSION_COOKIE_SAMESITE = "Lax"
SESSION_COOKIE_SECURE = CSRF_COOKIE_SECURE = ENV.reached_by_tls
SECURE_CONTENT_TYPE_NOSNIFF = True
LOGIN_URL = "/ui/login"

REST_FRAMEWORK = {
    "DEFAULT_AUTHENTICATION_CLASSES": [
        "web.access.auth.GatewayAuthentication",
        "web.identity.authentication.ProviderAuthentication",
        "web.access.auth.ShortLoginAuthentication",
        "web.access.auth.PersonalTokenAuthentication",
        "web.access.auth.DevelopmentUserAuthentication",
        "rest_framework.authentication.SessionAuthentication",
    ],
    "DEFAULT_PERMISSION_CLASSES": ["web.access.permissions.Allowed"],
    "DEFAULT_RENDERER_CLASSES": ["web.rest.shapes.ShapeRenderer"],
    "DEFAULT_PARSER_CLASSES": ["web.rest.parsers.StrictJSONParser"],
    "URL_FORMAT_OVERRIDE": None,  # a parameter "format" is one like any other
    "DEFAULT_SCHEMA_CLASS": "drf_spectacular.openapi.AutoSchema",
    "EXCEPTION_HANDLER": "web.rest.errors.handle",
    "UNAUTHENTICATED_USER": None,
    "DATETIME_FORMAT": "%Y-%m-%dT%H:%M:%S.%f",  # naive UTC: OSMO's client refuses a zone
}
REST_KNOX = {"AUTH_HEADER_PREFIX": "Bearer", "TOKEN_MODEL": "web.PersonalToken"}
KNOX_TOKEN_MODEL = "web.PersonalToken"  # noqa: S105 -- a model's name

SPECTACULAR_SETTINGS = {
    "TITLE": "osmo-topology",
    "DESCRIPTION": "Topology-aware, NVLink-aware workflows for GPU clusters, compatible with NVIDIA OSMO.",
    "VERSION": VERSION,
    "OAS_VERSION": "3.1.0",
    "SERVE_INCLUDE_SCHEMA": False,
    "SERVE_PUBLIC": True,
    "SERVE_PERMISSIONS": ["web.access.permissions.Allowed"],
    "SWAGGER_UI_DIST": "SIDECAR",
    "REDOC_DIST": "SIDECAR",
    "SWAGGER_UI_FAVICON_HREF": "SIDECAR",
    "COMPONENT_NO_READ_ONLY_REQUIRED": True,  # some are told only in replies to writes, or with verbose
    "POSTPROCESSING_HOOKS": [
        "drf_spectacular.hooks.postprocess_schema_enums",
        "web.rest.schema.describe_bodies",
        "web.rest.schema.describe_errors",
    ],
    "ENUM_NAME_OVERRIDES": {
        "TaskStatus": "workflows.lifecycle.statuses.TaskStatus.values",
        "WorkflowStatus": "workflows.lifecycle.statuses.WorkflowStatus.values",
        "GroupFeasibilityShapeVerdictEnum": "workflows.feasibility.verdict.report.VERDICTS",
    },
}

CELERY_BROKER_URL = ENV.broker_url
CELERY_TASK_IGNORE_RESULT = True
CELERY_TASK_SERIALIZER = "json"
CELERY_ACCEPT_CONTENT = ["json"]
CELERY_TASK_ACKS_LATE = True
CELERY_WORKER_PREFETCH_MULTIPLIER = 1
CELERY_WORKER_HIJACK_ROOT_LOGGER = False
CELERY_WORKER_ENABLE_REMOTE_CONTROL = False  # whoever writes to Redis could end every worker
CELERY_BROKER_CONNECTION_RETRY_ON_STARTUP = True
_BROKER_LIMITS = {"socket_timeout": 10, "socket_connect_timeout": 5}
CELERY_BROKER_TRANSPORT_OPTIONS = {
    "visibility_timeout": 600,
    **_BROKER_LIMITS,
    **ENV.sentinel_options(_BROKER_LIMITS),
    "max_retries": 1,  # a notification that cannot be sent costs a sweep's wait, never a request's
    "interval_start": 0.1,
}
CELERY_TASK_DEFAULT_QUEUE = periodic.MAIN_QUEUE
CELERY_TASK_ROUTES = {
    name: {"queue": periodic.QUEUE, "routing_key": periodic.QUEUE}
    for name in (
        "pools.*",
        *(f"workflows.tasks.{word}_*" for word in ("evaluate", "judge", "measure", "purge", "seek", "sweep")),
    )
}

EMAIL_HOST, EMAIL_PORT = ENV.email_host, ENV.email_port
EMAIL_USE_TLS, EMAIL_USE_SSL = ENV.email_security == "starttls", ENV.email_security == "tls"
EMAIL_HOST_USER, EMAIL_HOST_PASSWORD = ENV.email_user, ENV.email_password.get_secret_value()
EMAIL_TIMEOUT = 30  # for each answer; one that is not awaited may still have been sent
DEFAULT_FROM_EMAIL = ENV.email_from

DJANGO_STRUCTLOG_CELERY_ENABLED = True
DJANGO_STRUCTLOG_CELERY_TASK_START_LOG_LEVEL = DEBUG_LEVEL  # one line for a message: how its task ended
LOGGING_CONFIG = None
configure_logging(log_format=ENV.log_format, level=ENV.log_level)

UNFOLD = {
    "SITE_TITLE": "osmo-topology",
    "SITE_HEADER": "osmo-topology",
    "SITE_SYMBOL": "hub",
    "SITE_FAVICONS": [{"rel": "icon", "type": "image/svg+xml", "href": lambda _: static("pages/icon.svg")}],
    "STYLES": [lambda _: static("pools/desk.css")],
    "SCRIPTS": [lambda _: static("pools/landmarks.js")],
    "SHOW_VIEW_ON_SITE": False,
    "DASHBOARD_CALLBACK": "pools.admin.desk.dashboard",
}
