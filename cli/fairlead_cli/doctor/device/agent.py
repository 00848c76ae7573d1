"""Programs and their versions, and what a running agent says of itself."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from fairlead_cli.doctor.finding import Finding, ok, problem, warning
from fairlead_cli.text import counts

SQLITE_MIN = (3, 35, 0)


class Programs(msgspec.Struct, frozen=True, kw_only=True):
    """Versions of what runs the agent."""

    fairlead: str
    python: str
    sqlite: str
    strange_variables: tuple[str, ...] = ()


def judge_programs(programs: Programs) -> Iterator[Finding]:
    """Versions, and variables that were meant for us and are not understood."""
    text = f"fairlead {programs.fairlead}, Python {programs.python}, SQLite {programs.sqlite}"
    if tuple(int(part) for part in programs.sqlite.split(".")[:3]) < SQLITE_MIN:
        needed = ".".join(map(str, SQLITE_MIN))
        yield problem("versions", f"{text}: SQLite is too old", f"pip install -U apsw; at least {needed} is needed")
    else:
        yield ok("versions", text)
    for name in programs.strange_variables:
        yield warning("settings", f"the variable {name} is no setting of Fairlead's", "correct or remove it")


def judge_left(node: str, at: str) -> Iterator[Finding]:
    """No agent starts on this device, and nothing else about it is worth a look."""
    text = f"{node} was taken out of service at {at}, so no agent starts on this device"
    yield problem("service", text, "to give the device to a hub again: fairlead edge join")


def judge_running(in_use: bool, status: Mapping[str, Any] | None, error: str, here: str) -> Iterator[Finding]:
    """``status`` is the agent's own account, None when it gave none for the reason ``error`` ("": not asked)."""
    if not in_use and status is None:
        yield ok("agent", "no agent is running on this data_dir")
        return
    if status is None and not error:
        yield ok("agent", "an agent runs; it answers with TLS only, so its own account was not asked for")
        return
    if status is None:
        text = f"an agent holds the data_dir, and does not say how it is: {error}"
        yield problem("agent", text, "read its log (journalctl -u fairlead-edge), and see http_listen in the settings")
        return
    agent, link = str(status.get("agent", "?")), status.get("link") or {}
    if agent != here:
        text = f"agent {agent} runs, and {here} is installed"
        yield warning("agent.version", text, "restart the agent: it was updated and not started again")
    if link.get("state") == "connected":
        yield ok("agent", f"agent {agent} runs and is connected to hub {link.get('hub') or '?'}")
    elif (seconds := link.get("followsInSeconds")) is not None:
        text = f"agent {agent} runs and refuses the hub for its lower fencing number: {link.get('reason')}"
        command = f"fairlead node approve {status.get('node')}"
        remedy = f"it follows that hub in {seconds:.0f} s; to end it now, where the cluster is administered: {command}"
        yield problem("agent.stale_hub", text, remedy)
    else:
        why = link.get("reason") or "it does not say why"
        text = f"agent {agent} runs and has no session with the hub: {link.get('state', '?')}: {why}"
        yield problem("agent", text, "see the findings about the link")
    dead = status.get("deadLetters") or 0
    if dead:
        text = f"set aside as dead letters: {counts.of(dead, 'message')}"
        remedy = "fairlead edge deadletters list shows why; replay sends them again, discard deletes them"
        yield warning("agent.dead_letters", text, remedy)
