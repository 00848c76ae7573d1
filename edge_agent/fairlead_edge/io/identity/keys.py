"""Keys, certificate requests and signatures, made by the child process ``key_maker``."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import os
import sys
from typing import Any, Final, Literal

import msgspec

from fairlead_wire.errors import FairleadError

SECONDS_MAX: Final = 60.0
"""Timeout for one answer.  Making an RSA key takes a small device many seconds; a P-256 key takes no time."""
ANSWER_BYTES_MAX: Final = 64 * 1024
PROGRAM: Final = "fairlead_edge.io.identity.key_maker"

KeyKind = Literal["p256", "p384", "ed25519", "rsa3072"]


class KeyMakerFailed(FairleadError):
    """No key, request or signature could be made; nothing was changed."""


class KeyAndRequest(msgspec.Struct, frozen=True, kw_only=True):
    """A private key (PEM) and a certificate request for it (DER)."""

    key: bytes
    request: bytes

    def __repr__(self) -> str:
        return "KeyAndRequest(…)"  # keeps the key out of logs


async def make(kind: KeyKind = "p256", *, node: str = "") -> KeyAndRequest:
    """A new key, and a request for it that carries ``node`` if given.  Raises ``KeyMakerFailed``."""
    answer = await _ask({"operation": "make", "kind": kind, "node": node})
    return KeyAndRequest(key=answer["key"].encode(), request=base64.b64decode(answer["request"]))


async def request(key: bytes, *, node: str = "") -> bytes:
    """A certificate request (DER) for an existing key (PEM).  Raises ``KeyMakerFailed``."""
    answer = await _ask({"operation": "request", "key": key.decode(), "node": node})
    return base64.b64decode(answer["request"])


async def sign(key: bytes, content: bytes) -> bytes:
    """A signature of ``content`` by a key (PEM); ECDSA-SHA256, Ed25519 or RSA-PSS-SHA256 by the key's kind.

    Raises ``KeyMakerFailed``.
    """
    answer = await _ask({"operation": "sign", "key": key.decode(), "content": base64.b64encode(content).decode()})
    return base64.b64decode(answer["signature"])


async def reaches(chain: bytes, authorities: bytes) -> bool:
    """Whether the chain leads to one of the authorities (PEM each).  Raises ``KeyMakerFailed``."""
    answer = await _ask({"operation": "reaches", "chain": chain.decode(), "authorities": authorities.decode()})
    return answer["reaches"] == "yes"


async def _ask(question: dict[str, str]) -> dict[str, str]:
    try:
        child = await asyncio.create_subprocess_exec(
            # -P: import nothing from the working directory; -S: PYTHONPATH holds our whole path already.
            *(sys.executable, "-P", "-S", "-m", PROGRAM),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            env=_environment(),
        )
    except OSError as error:
        raise KeyMakerFailed(f"the key maker cannot be started: {error.strerror or error}") from None
    try:
        async with asyncio.timeout(SECONDS_MAX):
            stdout, stderr = await child.communicate(msgspec.json.encode(question))
    except TimeoutError:
        raise KeyMakerFailed(f"the key maker did not answer within {SECONDS_MAX:g} s") from None
    finally:
        if child.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                child.kill()
            await child.wait()
    return _answer(stdout, stderr, child.returncode or 0)


def _environment() -> dict[str, str]:
    """Only the variables that Python needs; not the settings, which may contain secrets."""
    kept = {name: os.environ[name] for name in ("PATH", "LD_LIBRARY_PATH") if name in os.environ}
    return {**kept, "PYTHONPATH": os.pathsep.join(filter(None, sys.path)), "PYTHONDONTWRITEBYTECODE": "1"}


def _answer(stdout: bytes, stderr: bytes, code: int) -> dict[str, str]:
    try:
        answer = msgspec.json.decode(stdout[:ANSWER_BYTES_MAX], type=dict[str, Any])
    except ValueError:
        last = stderr.decode(errors="replace").strip().rpartition("\n")[2][:200]
        raise KeyMakerFailed(f"the key maker exited with {code}: {last or 'no output'}") from None
    if "error" in answer:
        raise KeyMakerFailed(str(answer["error"])[:500])
    return answer
