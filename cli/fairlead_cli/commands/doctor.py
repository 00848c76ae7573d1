"""`fairlead doctor`: finds problems of a device or a cluster, and says how to fix them."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from fairlead_cli.clients import edge_client
from fairlead_cli.cluster import hub_role
from fairlead_cli.cluster import target as targets
from fairlead_cli.cluster.target import Target
from fairlead_cli.doctor import examination
from fairlead_cli.doctor.examination import Check
from fairlead_cli.output import printer
from fairlead_cli.output.printer import Printer
from fairlead_cli.parameters import Url


def register(root: click.Group) -> None:
    """Add `doctor` to the root command."""
    root.add_command(doctor)


@click.command(short_help="Find problems of a device or the cluster, and how to fix them.")
@click.option("--edge", "side", flag_value="edge", help="Examine this device (default if it has agent settings).")
@click.option("--cluster", "side", flag_value="cluster", help="Examine what runs in the cluster, and its permissions.")
@click.option(
    "--config",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    metavar="FILE",
    help=f"With --edge: the agent's settings; default: {edge_client.DEVICE_SETTINGS} and variables FAIRLEAD_EDGE_….",
)
@click.option(
    "--hub-account",
    metavar="NAMESPACE:NAME",
    help="With --cluster: check the permissions of this service account instead of yours.",
)
@click.option(
    "--hub",
    type=Url(),
    envvar="FAIRLEAD_HUB_URL",
    metavar="URL",
    help="With --cluster: check whether this hub is ready.",
)
@click.option(
    "--messaging",
    type=Url(),
    envvar="FAIRLEAD_MESSAGING_URL",
    metavar="URL",
    help="With --cluster: check whether this messaging service is ready.",
)
@targets.options(namespace=True)
@printer.options(printer.DOCUMENTS)
def doctor(
    side: str | None,
    config: Path | None,
    hub_account: str | None,
    hub: str | None,
    messaging: str | None,
    target: Target,
    shown: Printer,
) -> None:
    """Look for problems, and say in a sentence how to fix each.

    On a device: versions, clock, disk and its fsync, permissions, certificates, stores, the agent, and each step of the
    connection to the hub. Nothing is changed, and a running agent is not disturbed.

    In a cluster: definitions, the permissions a hub needs, Lease, Pods, rules, routes, nodes, certificates, quotas;
    with --hub and --messaging also whether these are ready. With -n, only the Pods and Leases in that namespace.

    \b
    sudo -u fairlead fairlead doctor --edge
    fairlead doctor --edge --config edge.toml -o json
    fairlead doctor --cluster -n fairlead --hub-account fairlead:fairlead-hub

    Exit codes: 0 nothing worse than a warning, 1 a problem was found, 2 wrong use or settings.
    """
    chosen = side or ("edge" if config or edge_client.has_device_settings() else "cluster")
    if chosen == "cluster":
        findings = _examined(chosen, _cluster_checks(target, hub_account, hub, messaging))
    else:
        findings = _examined(chosen, _device_checks(config))
    if shown.is_for_people:
        click.echo("\n".join(examination.lines(findings)))
    else:
        shown.document(examination.document(chosen, findings))
    sys.exit(1 if examination.worst(findings) == "problem" else 0)


def _examined(side: str, checks: list[Check]) -> list[examination.Finding]:
    """Run the checks; on a terminal, one line shows the progress."""
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
    from fairlead_wire.io import settings as settings_io

    if config is None and not edge_client.has_device_settings():
        raise click.UsageError(edge_client.no_device_settings())
    try:
        settings = edge_client.device_settings(config)
    except settings_io.SettingsError as error:
        sys.exit(settings_io.complain("edge", error))
    return examine.checks(settings)


def _cluster_checks(target: Target, hub_account: str | None, hub: str | None, messaging: str | None) -> list[Check]:
    from fairlead_cli.doctor.cluster import examine

    account = hub_role.parse(hub_account)
    places = examine.Places(namespace=target.given_namespace, account=account, hub_url=hub, messaging_url=messaging)
    return examine.checks(target, places)
