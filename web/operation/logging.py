"""Structured logs: one JSON object a line, with the request id that follows a workflow through."""

import logging

import structlog


def configure_logging(*, log_format: str, level: str) -> None:
    """Send every logger, ours and the libraries', through structlog to standard error. Idempotent."""
    shared: list[structlog.typing.Processor] = [
        structlog.contextvars.merge_contextvars,
        structlog.stdlib.add_logger_name,
        structlog.stdlib.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        structlog.processors.StackInfoRenderer(),
    ]
    renderer: structlog.typing.Processor = (
        structlog.processors.JSONRenderer()
        if log_format == "json"
        else structlog.dev.ConsoleRenderer(colors=False)
    )
    structlog.configure(
        processors=[
            structlog.stdlib.filter_by_level,
            *shared,
            structlog.stdlib.ProcessorFormatter.wrap_for_formatter,
        ],
        logger_factory=structlog.stdlib.LoggerFactory(),
        cache_logger_on_first_use=True,
    )
    handler = logging.StreamHandler()
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=shared,
            processors=[
                structlog.stdlib.ProcessorFormatter.remove_processors_meta,
                structlog.processors.format_exc_info,
                renderer,
            ],
        )
    )
    handler.addFilter(_as_refusal)
    root = logging.getLogger()
    root.handlers = [handler]
    root.setLevel(level)
    for noisy in ("urllib3", "asyncio", "kombu", "amqp", "celery.worker.strategy", "celery.app.trace"):
        logging.getLogger(noisy).setLevel(max(logging.WARNING, logging.getLevelName(level)))


def _as_refusal(record: logging.LogRecord) -> bool:
    """Log a request that Django refused with 400 as the caller's fault, without our stack."""
    if record.name.startswith("django.security."):
        record.exc_info, record.levelno, record.levelname = None, logging.WARNING, "WARNING"
    return True
