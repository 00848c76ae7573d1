"""A real node and the acceptance story on it.

    python -m e2e.node                  build what is missing, node up, both stories, node down; `make e2e`
    python -m e2e.node --only NAME      one story: `install` or `executors`
    python -m e2e.node up               a node that stays, with the images in it; prints how to use it
    python -m e2e.node down [NAME …]    take nodes away (all of this machine's, without names)
    python -m e2e.node status           which nodes there are
    python -m e2e.node kubectl ARGS     kubectl on the (first) node that is up
    python -m e2e.node helm ARGS        helm likewise

If the machine cannot run a node, `make e2e` says why and exits with 0, or with 1 if FAIRLEAD_E2E=required.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from e2e.controlplane import build as controlplane
from e2e.images import build as images
from e2e.images.layers import LayerError
from e2e.node import machine, node, traces
from e2e.story.on_executors import OnExecutors
from e2e.story.store import Store
from e2e.story.telling import Story

STORE = "versitygw"
PROGRAMS = (*controlplane.DEFAULT, *controlplane.NODE, STORE)
INSTALL, EXECUTORS = "install", "executors"
IMAGES = {INSTALL: images.ROOMS, EXECUTORS: ("hub", "messaging", "ingest", images.CLUSTER)}
"""Stories, and what each needs."""
FIGURES = Path("artifacts/e2e.json")
_began = time.monotonic()


def say(text: str) -> None:
    """One line of progress with the seconds since the start."""
    print(f"e2e: {time.monotonic() - _began:6.1f} s  {text}", flush=True)


def fit() -> int | None:
    """None if this machine can run a node; otherwise the exit code, after printing the reason."""
    reason = machine.prepare(os.environ, node.home())
    if not reason:
        return None
    required = machine.required(os.environ)
    print(f"e2e: {'failed' if required else 'skipped'}: {reason}", flush=True)
    return 1 if required else 0


def load(target: node.Node, archives: dict[str, Path]) -> None:
    """Import every image; pause first, since no Pod starts without it."""
    for room in ("pause", *(each for each in archives if each != "pause")):
        target.load(archives[room])


def provide(stories: Sequence[str]) -> dict[str, Path]:
    """The images that these stories need; missing ones are built."""
    return images.provide(list(dict.fromkeys(room for name in stories for room in IMAGES[name])))


def tell(name: str, running: node.Node, folder: Path) -> dict[str, float]:
    """Run one story; returns its figures."""
    if name == INSTALL:
        telling = Story(running, folder, say)
        telling.tell()
        return telling.figures
    with Store(running.assets / STORE, folder / "store", running.host_address) as store:
        executors = OnExecutors(running, store, folder / "executors", say)
        executors.tell()
        return executors.figures


def story(stories: Sequence[str]) -> int:
    """Run everything once."""
    began = time.monotonic()
    assets = controlplane.provide(PROGRAMS, os.environ)
    archives = provide(stories)
    say("programs and images are ready")
    before = traces.sysctls()
    built = time.monotonic()
    with node.up(assets, node.home()) as running, tempfile.TemporaryDirectory(prefix="fairlead-e2e-") as folder:
        plan = running.plan
        up_seconds = round(time.monotonic() - built, 1)
        say(f"{plan.name} is Ready at {plan.api} ({up_seconds} s)")
        load(running, archives)
        say("images imported")
        told: dict[str, float] = {}
        for name in stories:
            told |= tell(name, running, Path(folder))
    left = traces.left(plan)
    assert not left, f"left on the machine: {'; '.join(left)}"
    assert traces.sysctls() == before, f"sysctls changed: {before} became {traces.sysctls()}"
    say("node down; nothing of it is left on this machine")
    figures = {
        "seconds": round(time.monotonic() - began, 1),
        "node_ready_seconds": up_seconds,
        **told,
        **{f"{room}_image_megabytes": round(path.stat().st_size / 1e6, 1) for room, path in archives.items()},
    }
    FIGURES.parent.mkdir(exist_ok=True)
    FIGURES.write_text(json.dumps(figures, indent=1) + "\n")
    print("e2e: ok " + " ".join(f"{name}={value:g}" for name, value in figures.items()), flush=True)
    return 0


def up() -> int:
    """Start a node that keeps running."""
    assets = controlplane.provide(PROGRAMS, os.environ)
    archives = provide(list(IMAGES))
    node.sweep(node.home())
    running = node.Node(node.claim(node.home()), assets)
    try:
        running.start(outlive=True)
        load(running, archives)
    except BaseException:
        running.stop()
        raise
    say(f"{running.plan.name} is up; take it down with: python -m e2e.node down {running.plan.name}")
    print(f"export KUBECONFIG={running.kubeconfig} PATH={assets}:$PATH")
    return 0


def down(names: Sequence[str]) -> int:
    """Remove nodes: the named ones, or all that no living harness owns."""
    plans = [plan for plan in node.found(node.home()) if plan.name in names or (not names and not node.owned(plan))]
    unknown = set(names) - {plan.name for plan in plans}
    for plan in plans:
        node.remove(plan.folder)
        say(f"{plan.name} is gone")
    if unknown:
        print(f"e2e: no such node: {', '.join(sorted(unknown))}", file=sys.stderr)
    return 2 if unknown else 0


def status() -> int:
    """Print one line for each node."""
    for plan in node.found(node.home()):
        pid = node.init_pid(plan)
        state = f"up, pid {pid}" if pid else "dead; the next start or down removes it"
        print(f"{plan.name}  {state}  owner={'harness' if node.owned(plan) else 'none'}  {plan.kubeconfig('admin')}")
    return 0


def tool(name: str, arguments: Sequence[str]) -> int:
    """Run kubectl or helm on the first node that is up."""
    for plan in node.found(node.home()):
        if node.init_pid(plan):
            running = node.Node(plan, controlplane.provide(PROGRAMS, os.environ))
            return subprocess.run([str(running.assets / name), *arguments], env=running.environ).returncode
    print("e2e: no node is up; python -m e2e.node up starts one", file=sys.stderr)
    return 1


def interrupted(number: int, frame: object) -> None:
    """Treat SIGTERM like Ctrl-C: everything that was started is removed."""
    raise KeyboardInterrupt


def main(arguments: Sequence[str]) -> int:
    """Run as a program; see the module's docstring."""
    if arguments[:1] in (["kubectl"], ["helm"]):
        return tool(arguments[0], arguments[1:])
    parser = argparse.ArgumentParser(prog="python -m e2e.node", description="a real node, and the story on it")
    parser.add_argument("verb", nargs="?", default="story", choices=["story", "up", "down", "status"])
    parser.add_argument("--only", choices=list(IMAGES), help="tell this story alone")
    parser.add_argument("names", nargs="*", metavar="NAME", help="nodes to take down")
    options = parser.parse_args(arguments)
    signal.signal(signal.SIGTERM, interrupted)
    try:
        match options.verb:
            case "down":
                return down(options.names)
            case "status":
                return status()
            case verb:
                unfit = fit()
                if unfit is not None:
                    return unfit
                return up() if verb == "up" else story([options.only] if options.only else list(IMAGES))
    except (controlplane.BuildError, LayerError, AssertionError, OSError) as error:
        print(f"e2e: failed: {error}", flush=True)
        return 1
    except KeyboardInterrupt:
        print("e2e: interrupted; what it started is removed", flush=True)
        return 130


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
