"""What the kubelet reads and writes: pods of its node, and the objects that they name."""

import asyncio
import base64
from typing import Any

import urllib3

from localcluster.api import Api, ApiError, Json

STATUS = "status"
TRIES, PAUSE_SECONDS = 10, 0.5


class NotThere(Exception):
    """An object that a pod names does not exist (yet), or lacks a key; the message says which."""


class Cluster:
    """Calls of one kubelet; blocking ones run in threads."""

    def __init__(self, api: Api, node: str) -> None:
        self.api, self.node = api, node

    async def call(self, verb: str, path: str, **more: Any) -> Json:
        """One call, again where the server could not answer."""
        for _ in range(TRIES):
            try:
                return await asyncio.to_thread(lambda: self.api.call(verb, path, **more))
            except (ApiError, urllib3.exceptions.HTTPError) as error:
                if isinstance(error, ApiError) and error.code < 500 and error.code != 429:
                    raise
                await asyncio.sleep(PAUSE_SECONDS)
        return await asyncio.to_thread(lambda: self.api.call(verb, path, **more))

    async def pods(self) -> list[Json]:
        query = {"fieldSelector": f"spec.nodeName={self.node}"}
        return (await self.call("GET", "/api/v1/pods", query=query)).get("items") or []

    async def content(self, kind: str, namespace: str, name: str) -> dict[str, bytes]:
        """The data of a Secret or a ConfigMap. Raises NotThere."""
        plural = {"Secret": "secrets", "ConfigMap": "configmaps"}[kind]
        try:
            body = await self.call("GET", f"/api/v1/namespaces/{namespace}/{plural}/{name}")
        except ApiError as error:
            if error.code == 404:
                raise NotThere(f'{kind.lower()} "{name}" not found') from error
            raise
        decode = base64.b64decode if kind == "Secret" else str.encode
        binary = {key: base64.b64decode(value) for key, value in (body.get("binaryData") or {}).items()}
        return {key: decode(value) for key, value in (body.get("data") or {}).items()} | binary

    async def token(self, pod: Json, source: Json) -> str:
        """A service-account token that ends with the pod."""
        own = pod["metadata"]
        account = pod["spec"]["serviceAccountName"]
        path = f"/api/v1/namespaces/{own['namespace']}/serviceaccounts/{account}/token"
        reference = {"kind": "Pod", "apiVersion": "v1", "name": own["name"], "uid": own["uid"]}
        spec = {"boundObjectRef": reference, "expirationSeconds": source.get("expirationSeconds", 3600)}
        if audience := source.get("audience"):
            spec["audiences"] = [audience]
        body = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": spec}
        return str((await self.call("POST", path, body=body))["status"]["token"])

    async def write_status(self, pod: Json, status: Json) -> None:
        path = f"{path_of(pod)}/{STATUS}"
        body = {"metadata": {"uid": pod["metadata"]["uid"]}, "status": status}
        await self._unless_gone(
            self.call("PATCH", path, body=body, content_type="application/merge-patch+json")
        )

    async def remove(self, pod: Json) -> None:
        """Let the API server forget a pod that has ended here."""
        body = {"gracePeriodSeconds": 0, "preconditions": {"uid": pod["metadata"]["uid"]}}
        await self._unless_gone(self.call("DELETE", path_of(pod), body=body))

    async def _unless_gone(self, call: Any) -> None:
        try:
            await call
        except ApiError as error:
            if error.code not in {403, 404, 409, 422}:
                raise


def path_of(pod: Json) -> str:
    return f"/api/v1/namespaces/{pod['metadata']['namespace']}/pods/{pod['metadata']['name']}"
