"""`fairlead doctor`: what is wrong here, and how to mend it."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import click

from fairlead_cli.doctor import examination, finding
from fairlead_cli.doctor.examination import Check
from fairlead_cli.output import printer
from fairlead_cli.output.printer import Printer

DEVICE_SETTINGS = Path("/etc/fairlead/edge.toml")


def register(root: click.Group) -> None:
    """Add `doctor` to the root command."""
    root.add_command(doctor)


@click.command(short_help="Look for what is wrong with a device, and say the remedy.")
@click.option("--edge", "side", flag_value="edge", help="Examine this device (the default).")
@click.option(
    "--config",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    metavar="FILE",
    help=f"--edge: settings of the agent; default: {DEVICE_SETTINGS}, and the variables FAIRLEAD_EDGE_….",
)
@printer.options(("text", "json", "yaml", "jsonpath"))
def doctor(side: str | None, config: Path | None, shown: Printer) -> None:
    """Look for what is wrong, and say in a sentence what to do about it.

    On a device: versions, clock, disk and its fsync, permissions, certificates, stores, the agent, and the way to the
    hub step by step. An agent that runs keeps its lock, its store and its session; nothing is changed.

    \b
    sudo -u fairlead fairlead doctor --edge
    fairlead doctor --edge --config edge.toml -o json

    Exit codes: 0 nothing worse than a warning, 1 a problem was found, 2 wrong use or settings.
    """
    chosen = side or "edge"
    findings = _examined(chosen, _device_checks(config))
    if shown.is_for_people:
        click.echo("\n".join(finding.lines(findings)))
    else:
        shown.document(finding.document(chosen, findings))
    sys.exit(1 if finding.worst(findings) == "problem" else 0)


def _examined(side: str, checks: list[Check]) -> list[finding.Finding]:
    """With one line that renews itself, on a terminal only."""
    waiting = [check.name for check in checks]
    renews = sys.stderr.isatty()

    def say() -> None:
        if renews:
            sys.stderr.write(f"\r\x1b[K{f'examining {side}: ' + ', '.join(waiting) + ' …' if waiting else ''}")
            sys.stderr.flush()

    def done(name: str) -> None:
        waiting.remove(name)
        say()

    say()
    return examination.run(checks, done=done)


def _device_checks(config: Path | None) -> list[Check]:
    from fairlead_cli.doctor.device import examine
    from fairlead_edge.settings import Settings
    from fairlead_wire.io import settings as settings_io

    path = config or (DEVICE_SETTINGS if DEVICE_SETTINGS.exists() else None)
    try:
        settings = settings_io.load("edge", Settings, path, os.environ)
    except settings_io.SettingsError as error:
        sys.exit(settings_io.complain("edge", error))
    return examine.checks(settings)
