"""A webhook hears of a workflow's life from the running service."""

from tests.e2e.conftest import workflow
from tests.worker.receivers import web_receiver
from workflows.news.sending import SIGNATURE, signature


def test_a_webhook_hears_of_beginning_and_end_in_order_signed_with_the_submitters_key(world, running_service):
    key = world.service.call("GET", "/api/profile/news_key")["key"]
    with web_receiver(running_service["news_port"]) as receiver:
        notify = f"  notify: [{{webhook: '{receiver.url}', kinds: [began, ended]}}]\n"
        name = world.submit(world.make_pool(), workflow(("g", ["a"]), extra=notify))
        world.wait_group(name, "g", "RUNNING")
        for pod in world.pods(name):
            world.annotate(pod, run_for="0s")
        world.wait(lambda: receiver.kinds, lambda kinds: len(kinds) == 2)
    assert receiver.kinds == ["began", "ended"]
    assert receiver.events[1]["data"]["groups"] == [{"name": "g", "status": "COMPLETED", "message": None}]
    assert all(headers[SIGNATURE] == signature(body, key) for headers, body in receiver.requests)
