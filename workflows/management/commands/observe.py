"""Follow all clusters and write what is seen, until asked to stop."""

import signal
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand

from web.operation import metrics, pulse
from web.operation.process_memory import settle
from workflows.observer.process import Observer


class Command(BaseCommand):
    help = "Follow pods, pod groups, ComputeDomains, nodes and events of every backend's cluster."
    requires_system_checks = ()  # they load every page, which only web serves

    def handle(self, *args: Any, **options: Any) -> None:
        del args, options
        observer = Observer(most=settings.ENV.observer_clusters)
        for name in (signal.SIGTERM, signal.SIGINT):
            signal.signal(name, lambda *_: observer.stop())
        pulse.watch(observer.loop.fault)
        metrics.serve()
        settle()
        observer.run()
