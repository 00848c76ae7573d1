"""The names of endpoints, resolved at each connection and judged by the addresses they mean."""

from __future__ import annotations

import asyncio
import socket
from concurrent.futures import ThreadPoolExecutor
from functools import partial

from aiohttp.abc import AbstractResolver, ResolveResult

from fairlead_messaging.server.subscriptions import endpoint

THREADS = 32
NUMERIC = socket.AI_NUMERICHOST | socket.AI_NUMERICSERV


class EndpointResolver(AbstractResolver):
    """Leaves out the addresses that may not be pushed to: a name can mean another address each time it is asked for.

    It has threads of its own: a name server that does not answer holds one for many seconds, and others are needed
    for what has nothing to do with names.
    """

    def __init__(self) -> None:
        self._threads = ThreadPoolExecutor(THREADS, "resolver")

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
    ) -> list[ResolveResult]:
        ask = partial(socket.getaddrinfo, host, port, family, socket.SOCK_STREAM, flags=socket.AI_ADDRCONFIG)
        found = await asyncio.get_running_loop().run_in_executor(self._threads, ask)
        allowed = [
            ResolveResult(hostname=host, host=str(at[0]), port=int(at[1]), family=kind, proto=protocol, flags=NUMERIC)
            for kind, _, protocol, _, at in found
            if endpoint.is_endpoint(str(at[0]))
        ]
        if not allowed:
            raise OSError(f"{host} is link-local: not pushed to")
        return allowed

    async def close(self) -> None:
        self._threads.shutdown(wait=False, cancel_futures=True)
