"""What a service answers to the command, and the logins that its user has."""

import base64
import json

POOL = {
    "status": "ONLINE",
    "nvlink": True,
    "topology_keys": [{"key": "zone"}, {"key": "clique"}],
    "platforms": {"gb200": {}},
    "description": "The quick racks in the new hall",
}


POOLS = (200, {"Content-Type": "application/json"}, json.dumps({"pools": {"training": POOL}}))


def jwt(ends):
    claims = base64.urlsafe_b64encode(json.dumps({"exp": ends}).encode()).decode().rstrip("=")
    return f"e30.{claims}.c2ln"
