"""The message of the consistency check."""

from celery import shared_task

from doctor import services


@shared_task(acks_late=True, name="workflows.tasks.run_audit", ignore_result=True)
def run_audit(run_id: int) -> None:
    """Carry out a check that was asked for; a run that has begun belongs to the worker that began it."""
    services.carry_out(run_id)
