"""What a service answers to the command, and the logins that its user has."""

import base64
import json

POOL = {
    "status": "ONLINE",
    "nvlink": True,
    "topology_keys": [{"key": "zone"}, {"key": "clique"}],
    "default_topology": None,
    "platforms": {"gb200": {"default_topology": None}},
    "backend": "main",
    "max_exec_timeout": "",
    "description": "The quick racks in the new hall",
}


IN_USE = {
    "name": "training",
    "nodes": 4,
    "free_nodes": 1,
    "waiting_groups": 2,
    "largest": [{"key": "zone", "nodes": 1}, {"key": "clique", "nodes": 1}],
    "resource_usage": {"total_free": "4", "total_capacity": "16"},
}

POOLS = (
    200,
    {"Content-Type": "application/json"},
    json.dumps({"pools": {"training": POOL}, "node_sets": [{"pools": [POOL | IN_USE]}]}),
)


def jwt(ends):
    claims = base64.urlsafe_b64encode(json.dumps({"exp": ends}).encode()).decode().rstrip("=")
    return f"e30.{claims}.c2ln"
