"""A hub for agents of other versions, run with the packages of one tree; not a test.

    python hub_program.py PORT [send]

Accepts sessions on PORT; with `send` the first one gets an object and routes. One JSON line for each session and batch.
"""

from __future__ import annotations

import asyncio
import importlib
import json
import sys
from typing import Any

from websockets.exceptions import ConnectionClosed

from fairlead_wire import message


def module(*places: str) -> Any:
    """The module at the place where this tree has it: modules move from version to version."""
    for place in places:
        try:
            return importlib.import_module(place)
        except ModuleNotFoundError as missing:
            if not place.startswith(str(missing.name)):
                raise
    raise ModuleNotFoundError(f"none of {', '.join(places)}")


codec = module("fairlead_wire.link.codec", "fairlead_wire.codec")
hub_server = module("tests.support.hubs.hub_server", "tests.support.hub_server")

ROUTES: dict[str, Any] = {
    "apiVersion": "fairlead.dev/v1alpha1",
    "kind": "EdgeRoutes",
    "metadata": {"name": "all", "uid": "uid-routes"},
    "spec": {
        "schemaVersion": "1.1",
        "routes": {"all": {"route": "FROM /messages/* INTO $upstream", "priority": 1}},
        "storeAndForwardConfiguration": {"timeToLiveSecs": 86400},
    },
}


def say(**facts: Any) -> None:
    print(json.dumps(facts), flush=True)


async def main(port: int, sending: bool) -> None:
    async with hub_server.HubServer(port) as hub:
        say(tree=codec.__file__)
        while True:
            try:
                peer = await hub.open()
                say(held=peer.hello.held, protocol=peer.hello.protocol)
                if sending:
                    await peer.hold(hub_server.config_map("prices"))
                    await peer.hold(ROUTES, plural="edgeroutes")
                    sending = False
                    say(stored=2)
                while True:
                    header, content = await peer.receive()
                    if isinstance(header, message.Upstream):
                        say(upstream=codec.unpack(header.encoding, content).decode())
                        await peer.send(message.Ack(parent_id=header.id))
            except (ConnectionClosed, TimeoutError) as error:
                say(ended=str(error))


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1]), sys.argv[2:] == ["send"]))
