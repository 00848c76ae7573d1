"""A hub for agents of other versions, run with the packages of one tree; not a test.

    python hub_program.py PORT [send]

Accepts sessions on PORT; with `send` the first one gets an object and routes. One JSON line for each session and batch.
"""

from __future__ import annotations

import asyncio
import json
import sys
from typing import Any

from tests.support.hub_server import HubServer, config_map
from websockets.exceptions import ConnectionClosed

from fairlead_wire import message
from fairlead_wire.link import codec

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
    async with HubServer(port) as hub:
        say(tree=codec.__file__)
        while True:
            try:
                peer = await hub.open()
                say(held=peer.hello.held, protocol=peer.hello.protocol)
                if sending:
                    await peer.hold(config_map("prices"))
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
