"""Port-forward as OSMO's client does it: control sockets, minted keys, data (osmo-exec.md, E).

As observed: one control socket for each port with the key of the POST; for each local connection a key of the
client's own on it, in one binary message, and at once a data socket with that key.
"""

import json
from uuid import uuid4

from websockets.sync.client import connect

from tests.builders.osmo_exec import VERSION, ask


def ports_query(ports, *, udp=False):
    return "&".join([*(f"task_ports={port}" for port in ports), f"use_udp={udp}"])


def ask_ports(address, workflow, task, ports, authorization, **flags):
    return ask(
        address, f"/api/workflow/{workflow}/portforward/{task}?{ports_query(ports, **flags)}", authorization
    )


def minted():
    return f"PORTFORWARD-{uuid4().hex}"


def socket(answer, workflow, authorization, *, key=None):
    """The control socket of an answer, or the data socket of a key."""
    return connect(
        f"{answer['router_address']}/api/router/portforward/{workflow}/client/{key or answer['key']}",
        additional_headers={**authorization, "x-osmo-client-version": VERSION, "Cookie": answer["cookie"]},
        user_agent_header=f"osmo-cli/{VERSION}",
        max_size=2**20,
        proxy=None,
    )


def announce(control, key):
    control.send(json.dumps({"key": key, "cookie": ""}).encode())


def exchanged(data, message, *, seconds=30):
    """What comes back on a data socket, as much as was sent."""
    data.send(message)
    back = b""
    while len(back) < len(message):
        back += data.recv(timeout=seconds)
    return back
