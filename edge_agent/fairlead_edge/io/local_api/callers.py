"""Who asks the local API: the holder of the agent's own token, a module with a token of its own, or any program."""

from __future__ import annotations

from typing import Final, Protocol

import msgspec
from aiohttp import web


class LocalCaller(msgspec.Struct, frozen=True, kw_only=True):
    """``module`` is the one whose token was shown."""

    is_agent: bool = False
    module: str = ""


NO_TOKEN: Final = LocalCaller()
"""No token was shown, or none is looked at."""


class ModuleAccess(Protocol):
    """Where modules have tokens of their own: who asks, and who has one.  ``server.AccessGuard`` is one."""

    def caller(self, request: web.Request) -> LocalCaller | None: ...
    def has_token(self, module: str) -> bool: ...
