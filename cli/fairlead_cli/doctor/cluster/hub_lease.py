"""Is a hub running?  If not, the API objects show the last known state."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from fairlead_cli.cluster import collections, target

if TYPE_CHECKING:
    from fairlead_hub.io.cluster.kube import Kube


async def warn(kube: Kube) -> None:
    """Print a line on stderr if no hub holds a valid Lease; print nothing if the Lease cannot be read."""
    from fairlead_cli.doctor.cluster import programs
    from fairlead_hub import leadership
    from fairlead_hub.io.cluster.api_error import ApiRefused, ApiUnavailable

    try:
        found = await collections.items(kube, "apis/coordination.k8s.io/v1/leases")
    except (ApiRefused, ApiUnavailable):
        return  # without the right to read Leases nothing can be said about hubs
    leases = [each for each in found if str(each["metadata"]["name"]).startswith(leadership.NAME)]
    if why := programs.no_hub(leases, target.server_time(kube)):
        click.echo(f"{why}: what follows is the last known state", err=True)
