"""The root command: groups, the `run` command of every program, and the commands of other modules."""

from __future__ import annotations

import contextlib
import errno
import importlib
import os
import sys
from pathlib import Path

import click

from fairlead_cli.default_command import DefaultCommand
from fairlead_cli.text import printable
from fairlead_wire import distribution

EXIT_FAILED = 1
EXIT_USAGE = 2
"""Wrong usage; also invalid settings, and a program whose packages are not installed."""
CANNOT_BE_WRITTEN = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
"""Errors of writing to standard output, such as a full disk. click handles a closed pipe."""

ROOMS = {
    "hub": "Keeps edge nodes' objects up to date; runs in the cluster.",
    "edge": "Holds a node's objects, routes and stores its messages; runs on the node.",
    "messaging": "Stores messages in topics, with transactions.",
    "ingest": "Writes topics into Delta tables, with Spark.",
}
ROOM_DEFAULTS = {"ingest": "jobs"}
"""The default command of a program's group, if it has one."""
NOUNS = (
    *(
        "routes",
        "backoff",
        "messaging.topics",
        "ingest.tables",
        "cluster.status",
        "cluster.explain",
        "bench",
        "messaging.dump",
        "messaging.backup",
    ),
    *(
        "edge.deadletters",
        "edge.status",
        "edge.receipt",
        "edge.join",
        "edge.move",
        "edge.leave",
        "edge.module_token",
        "doctor",
    ),
    *("cluster.nodes", "cluster.objects", "cluster.events", "messaging.tail", "cluster.top", "completion"),
    *(
        "cluster.pause",
        "cluster.resync",
        "cluster.rollout",
        "cluster.logs",
        "cluster.approve",
        "cluster.diff",
        "bundle",
        "cluster.console",
    ),
    *("cluster.rbac", "cluster.node", "cluster.token", "send"),
    *("ingest.letters", "ingest.repair"),
)
"""Modules of ``commands`` that add commands; missing ones are skipped."""

EXTRAS = {
    **{room: room for room in ROOMS},
    "status": "hub",
    "explain": "hub",
    "nodes": "hub",
    "objects": "hub",
    "events": "hub",
    "top": "hub",
    "tail": "messaging",
    "topics": "messaging",
    "bench": "edge",
    "routes": "edge",
    "backoff": "plot",
    "doctor": "edge,hub",
    **dict.fromkeys(
        (
            "pause",
            "resume",
            "resync",
            "rollout",
            "logs",
            "approve",
            "diff",
            "bundle",
            "console",
            "rbac",
            "node",
            "token",
        ),
        "hub",
    ),
}
"""The extra that installs what a command needs."""

HELP = """Fairlead keeps Kubernetes objects in sync between a cluster and its edge nodes over unreliable links, and
brings the nodes' messages into tables.

\b
Ask the cluster:       fairlead nodes -w
                       fairlead objects edge-1
                       fairlead explain configmap/prices -n shop --node edge-1
Run a program:         fairlead edge run --config edge.toml
Check a manifest:      fairlead routes check routes.json
Try a condition:       echo '{"condition": "as_number(temp) > 20", "message": {"properties": {"temp": "21"}}}'
                         | fairlead routes eval
See a retry policy:    fairlead backoff plot
See what is wrong:     fairlead doctor

Every key of a configuration file is also an environment variable: FAIRLEAD_<PROGRAM>_<KEY>.
Exit codes: 0 success, 1 a problem was found or met, 2 wrong usage (the reason is on standard error).
"""


def _program_name() -> str:
    """kubectl runs a plugin under its file name; users type it with a space."""
    return "kubectl fairlead" if Path(sys.argv[0]).stem == "kubectl-fairlead" else "fairlead"


def _show_version(context: click.Context, _: click.Parameter, wanted: bool) -> None:
    if not wanted:
        return
    click.echo(f"fairlead {distribution.version()}")
    context.exit()


class Program(click.Group):
    """Every command imports what it needs when it runs; a missing package is reported with its remedy."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        for number, text in enumerate(args, 1):
            try:
                text.encode()
            except UnicodeEncodeError:
                ascii_only = text.encode(errors="backslashreplace").decode()
                raise click.UsageError(f"argument {number} is not UTF-8: {ascii_only[:80]}", ctx) from None
        return super().parse_args(ctx, args)

    def invoke(self, ctx: click.Context) -> object:
        try:
            return super().invoke(ctx)
        except click.ClickException as error:
            # It may be a server's. click calls it final, and shows what stands there.
            setattr(error, "message", printable.lines(error.message))  # noqa: B010
            raise
        except ModuleNotFoundError as missing:
            noun = ctx.invoked_subcommand or ""
            if (missing.name or "").startswith("fairlead_") or noun not in EXTRAS:
                raise  # a fault of ours; installing something would not help
            click.echo(not_installed(noun, missing), err=True)
            ctx.exit(EXIT_USAGE)


def not_installed(noun: str, missing: ModuleNotFoundError) -> str:
    """The message for a missing package, with how to install it."""
    remedy = distribution.install(EXTRAS[noun])
    return f"fairlead {noun}: the package {missing.name} is not installed; install it with: {remedy}"


@click.group(cls=Program, help=HELP, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.option(
    "--version", is_flag=True, expose_value=False, is_eager=True, callback=_show_version, help="Show the version."
)
def root() -> None:
    """The root command; its help text is HELP."""


def _start(room: str, config: Path | None) -> int:
    """Import the room's app and run it; a missing package becomes one sentence."""
    try:
        app = importlib.import_module(f"fairlead_{room}.app")
    except ModuleNotFoundError as missing:
        if (missing.name or "").startswith("fairlead_"):
            raise  # a fault of ours; installing something would not help
        click.echo(not_installed(room, missing), err=True)
        return EXIT_USAGE
    code: int = app.run(config)
    return code


def _add_room(room: str, purpose: str) -> None:
    usual = ROOM_DEFAULTS.get(room)
    if usual is None:
        group = click.Group(room, help=purpose, short_help=purpose)
    else:
        text = f"{purpose}\n\nWithout a command: {usual}."
        group = DefaultCommand(room, default=usual, help=text, short_help=purpose)

    @group.command("run", help=f"Run it in the foreground until SIGTERM, which drains and exits 0. {purpose}")
    @click.option(
        "--config",
        type=click.Path(exists=True, dir_okay=False, path_type=Path),
        metavar="FILE",
        help=f"TOML; every key also as FAIRLEAD_{room.upper()}_<KEY>.",
    )
    def run(config: Path | None) -> None:
        sys.exit(_start(room, config))

    root.add_command(group)


def _add_nouns() -> None:
    for noun in NOUNS:
        name = f"fairlead_cli.commands.{noun}"
        try:
            module = importlib.import_module(name)
        except ModuleNotFoundError as missing:
            if missing.name != name:
                raise
            continue
        module.register(root)


def build() -> click.Group:
    """The whole command tree."""
    if not root.commands:
        for room, purpose in ROOMS.items():
            _add_room(room, purpose)
        _add_nouns()
    return root


def main() -> None:
    """Entry point of `fairlead` and `kubectl-fairlead`."""
    if sys.stdin is None:
        # It is closed: an option that reads it (-) finds nothing, as with /dev/null.
        sys.stdin = open(os.devnull)  # noqa: SIM115 - until the process ends
    try:
        try:
            build()(prog_name=_program_name())
        finally:
            if sys.stdout is not None and not sys.stdout.closed:
                with contextlib.suppress(BrokenPipeError):
                    sys.stdout.flush()
    except OSError as error:
        if error.errno not in CANNOT_BE_WRITTEN or error.filename is not None:
            raise
        # What is still buffered goes nowhere, or the interpreter's flush at exit would fail with a second message.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.stderr.write(f"Error: the output cannot be written: {error.strerror}\n")
        sys.exit(EXIT_FAILED)
    finally:
        if "_FAIRLEAD_COMPLETE" in os.environ:
            # A thread that still waits for a name server would keep the shell waiting with it.
            sys.stdout.flush()
            os._exit(0)


if __name__ == "__main__":
    main()
