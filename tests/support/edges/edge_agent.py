"""A real edge agent as a process: the installed program, queried over HTTP, killed when a test wants it."""

from __future__ import annotations

import json
import sys
import urllib.error
import urllib.request
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tests.support.processes import Running, free_ports, start, wait_until

PROGRAM = Path(sys.executable).parent / "fairlead"
START_SECONDS = 100.0


class EdgeAgent:
    """One agent of node ``node`` on ``folder``; ``settings`` are further keys as ``{"STORE_MAX_BYTES": "…"}``."""

    def __init__(self, folder: Path, hub_url: str, *, node: str = "edge-1", **settings: str) -> None:
        self.folder = folder
        self.node = node
        self.port = free_ports(1)[0]
        self.url = f"http://127.0.0.1:{self.port}"
        self.log = folder / "edge.log"
        self.running: Running | None = None
        self.program: Sequence[str] = [str(PROGRAM)]
        self.extra: Mapping[str, str] = {}
        """Further variables of its environment."""
        self._settings = {
            "NODE": node,
            "HUB_URL": hub_url,
            "DATA_DIR": str(folder / "data"),
            "HTTP_LISTEN": f"127.0.0.1:{self.port}",
            "SECURITY": "insecure",
            **settings,
        }

    def set(self, **settings: str) -> None:
        """Change settings for the next start."""
        self._settings |= settings

    def launch(self) -> Running:
        """Start it and return at once."""
        environ = {f"FAIRLEAD_EDGE_{key}": value for key, value in self._settings.items()}
        command = [*self.program, "edge", "run"]
        environ = {"PATH": "/usr/bin:/bin", **environ, **self.extra}
        self.running = start(self.node, command, self.log, environ=environ)
        return self.running

    def start(self) -> EdgeAgent:
        """Start it and wait until it serves."""
        running = self.launch()

        def ready() -> bool:
            running.require_alive()
            return self.get("/readyz")[0] == 200

        wait_until(f"{self.node} is ready", ready, seconds=START_SECONDS, describe=running.tail)
        return self

    def kill(self) -> None:
        """kill -9."""
        assert self.running is not None
        self.running.kill()

    def stop(self) -> int:
        """SIGTERM; returns the exit code."""
        assert self.running is not None
        return self.running.stop()

    def token(self) -> str:
        return (self.folder / "data" / "token").read_text().strip()

    def get(self, path: str, **headers: str) -> tuple[int, Any]:
        """Status and body (JSON where it is) of a GET."""
        return self.ask("GET", path, None, **headers)

    def ask(self, method: str, path: str, body: Any = None, **headers: str) -> tuple[int, Any]:
        """Status and body of any request."""
        content = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.url + path, method=method, data=content, headers=headers)
        try:
            with urllib.request.urlopen(request, timeout=60) as answer:
                status, text = answer.status, answer.read()
        except urllib.error.HTTPError as error:
            status, text = error.code, error.read()
        try:
            return status, json.loads(text)
        except ValueError:
            return status, text.decode()

    def events(self) -> list[dict[str, Any]]:
        """The log events it wrote."""
        lines = self.log.read_text().splitlines() if self.log.exists() else []
        return [json.loads(line) for line in lines if line.startswith("{")]
