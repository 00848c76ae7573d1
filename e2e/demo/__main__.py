"""`make demo`: run the whole scenario on this machine. `up` leaves a stack running for development, `down` stops it.

Exit 0 and a last line `demo: ok …`, or exit 1 with what failed and the end of the log that says why.
"""

from __future__ import annotations

import argparse
import shlex
import shutil
import signal
import sys
import traceback
from pathlib import Path

from e2e.demo import kind
from e2e.demo.java import Missing, require_java
from e2e.demo.promises import Wrong
from e2e.demo.record import Record
from e2e.demo.screen import Screen
from e2e.demo.stack import ROOT, Stack
from e2e.demo.story import ACTS, Story, play
from tests.support.kube.assets import NoControlPlane
from tests.support.kube.kubernetes import KubectlError
from tests.support.processes import Unmet

from fairlead_wire import errors

FOLDER = ROOT / ".run" / "demo"
MARKER = ".fairlead-demo"
"""A folder named by the user is emptied only if it contains this file."""
INTERRUPTED = 130
STILL_RUNNING = "demo: an earlier one is still running, and was left as it is; make down ends it"


def terminated(number: int, frame: object) -> None:
    """Treat SIGTERM like Ctrl-C, so that nothing is left running."""
    raise KeyboardInterrupt


def look_around(stack: Stack, screen: Screen) -> None:
    """Print the addresses of the programs and how to stop them."""
    screen.chapter("Left running; look around, then: make down")
    for name, where in stack.addresses():
        screen.say(f"{name:10} {where}")
    screen.say(f"first      source {shlex.quote(str(stack.write_environment()))}")
    screen.say("try        fairlead status; kubectl get osync -A; kubectl -n harbour patch configmap tide-table …")


def run(word: str, folder: Path, kubeconfig: Path | None, keep: bool) -> int:
    """Run the scenario, or only start the programs and apply the harbour; returns the exit code."""
    if Record.of(folder).alive():
        print(STILL_RUNNING, file=sys.stderr)
        return 1
    screen = Screen(chapters=len(ACTS) if word == "play" else 2)
    try:
        require_java()
    except Missing as error:
        screen.last(f"demo: failed: {error}")
        return 1
    ours = folder == FOLDER or (folder / MARKER).exists()
    if not ours and folder.exists() and any(folder.iterdir()):
        screen.last(f"demo: failed: {folder} is not the state of a demo; use another --folder")
        return 1
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    (folder / MARKER).touch()
    # The story deletes no namespace; who looks around afterwards may.
    stack = Stack(folder, kubeconfig, outlive=keep, screen=screen, controllers=keep)
    kept = False
    try:
        if word == "up":
            story = Story(stack, screen)
            story.raise_house()
            story.go_down()
            stack.start_ingest()
            line = "up: ok"
        else:
            line = play(stack, screen)
            if keep:
                stack.start_ingest()
        kept = keep
        if keep:
            look_around(stack, screen)
        else:
            screen.say("to look around yourself: make up (or make demo KEEP=1); it prints the console's address")
        screen.last(line)
        return 0
    except (Unmet, Wrong, KubectlError, NoControlPlane) as error:
        screen.fail(str(error))
        screen.last(f"demo: failed: {str(error).splitlines()[0]}")
        return 1
    except Exception as error:  # noqa: BLE001 - a fault of the demo itself: where it is matters, and things must be ended
        screen.fail(traceback.format_exc())
        screen.last(f"demo: failed: {errors.described(error)}")
        return 1
    except KeyboardInterrupt:
        screen.last("demo: failed: interrupted")
        return INTERRUPTED
    finally:
        if not kept:
            if kubeconfig is not None:
                Story(stack, screen).tidy_cluster()
            stack.stop()


def down(folder: Path) -> int:
    """Stop the programs, and delete the kind cluster that `make up KIND=1` created."""
    ended = Record.of(folder).end(lambda names: print(f"down: waiting for {', '.join(names)} to end", flush=True))
    try:
        if kind.remove(folder.absolute().parent):
            ended.append(f"the cluster {kind.NAME}")
    except kind.NoKind as error:
        print(f"down: {error}", file=sys.stderr)
        return 1
    print(f"down: ended {', '.join(ended)}" if ended else "down: nothing was running")
    return 0


def main() -> int:
    """Parse the command line."""
    parser = argparse.ArgumentParser(prog="make demo", description=__doc__)
    parser.add_argument("word", nargs="?", choices=["play", "up", "down"], default="play")
    parser.add_argument("--keep", action="store_true", help="leave everything up at the end (KEEP=1)")
    parser.add_argument("--folder", type=Path, default=FOLDER, help="state, logs, table and picture; emptied at start")
    parser.add_argument("--kubeconfig", type=Path, help="use this cluster (KUBECONFIG=…)")
    parser.add_argument("--kind", action="store_true", help="up: make a cluster with kind and use it (KIND=1)")
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, terminated)
    if options.word == "down":
        return down(options.folder)
    if options.kind and (options.word != "up" or options.kubeconfig is not None):
        parser.error("--kind goes with up, and without --kubeconfig")
    if options.kubeconfig is not None and not options.kubeconfig.is_file():
        parser.error(f"--kubeconfig {options.kubeconfig} is not a file")
    kubeconfig = options.kubeconfig.absolute() if options.kubeconfig else None
    if options.kind:
        beside = options.folder.absolute().parent
        beside.mkdir(parents=True, exist_ok=True)
        print(f"up: creating a kind cluster named {kind.NAME}, which takes a minute", flush=True)
        try:
            kubeconfig = kind.provide(beside)
        except kind.NoKind as error:
            print(f"demo: failed: {error}", file=sys.stderr)
            return 1
    return run(options.word, options.folder.absolute(), kubeconfig, options.keep or options.word == "up")


if __name__ == "__main__":
    sys.exit(main())
