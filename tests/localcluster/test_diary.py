"""The demo's diary misses nothing of what came and went."""

import time

from localcluster.demo.view import Diary
from tests.localcluster.pods import pod

STREAMS = 3
LIMIT_SECONDS = 60


class PodsBetweenStreams:
    """The API server, with a pod that comes and goes each time a stream has ended."""

    def __init__(self, api, pods):
        self.list, self.pods, self.names = api.list, pods, []
        self._api = api

    def watch(self, path, **options):
        yield from self._api.watch(path, **options)
        if path == self.pods and len(self.names) < STREAMS:
            body = pod(terminationGracePeriodSeconds=0)
            body["metadata"]["name"] = name = f"p{len(self.names)}"
            self._api.create(path, body)
            self._api.delete(f"{path}/{name}")
            self.names.append(name)


def test_the_diary_goes_on_where_the_server_ended_a_stream(cluster_api, namespace):
    api = PodsBetweenStreams(cluster_api, f"/api/v1/namespaces/{namespace}/pods")
    diary = Diary(api, stream_seconds=1)
    diary.start([namespace])
    deadline = time.monotonic() + LIMIT_SECONDS
    while noted(diary, "DELETED") != ["p0", "p1", "p2"] and time.monotonic() < deadline:
        time.sleep(0.1)
    diary.stop()
    assert noted(diary, "ADDED") == noted(diary, "DELETED") == api.names == ["p0", "p1", "p2"]


def noted(diary, change):
    return [entry.name for entry in diary.entries if entry.change == change]
