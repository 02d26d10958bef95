"""The message of the consistency check."""

from celery import shared_task

from doctor import services


@shared_task(acks_late=True, ignore_result=True)
def run_check(check_id: int) -> None:
    """Run a requested check; one that has begun belongs to the worker that began it."""
    services.run_check(check_id)
