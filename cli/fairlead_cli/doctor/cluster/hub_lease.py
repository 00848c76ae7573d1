"""Is a hub running?  If not, the API objects show the last known state."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from fairlead_cli.cluster import collections, target

if TYPE_CHECKING:
    from fairlead_hub.io.cluster.kube import Kube


async def warn(kube: Kube) -> None:
    """Print a line on stderr if no hub holds a valid Lease; print nothing if Leases cannot be read."""
    await LeaseLine().warn(kube)


class LeaseLine:
    """For commands that poll: prints the line once, and again if a hub was back in between."""

    def __init__(self) -> None:
        self._is_printed = False

    async def warn(self, kube: Kube) -> None:
        """Like the function of this name."""
        why = await no_hub(kube)
        if why and not self._is_printed:
            click.echo(f"{why}: what follows is the last known state", err=True)
        self._is_printed = bool(why)


async def no_hub(kube: Kube) -> str:
    """Why no hub serves nodes; "": one does, or Leases cannot be read."""
    from fairlead_cli.doctor.cluster import programs
    from fairlead_hub import leadership
    from fairlead_hub.io.cluster.api_error import ApiRefused, ApiUnavailable

    try:
        found = await collections.items(kube, "apis/coordination.k8s.io/v1/leases")
    except (ApiRefused, ApiUnavailable):
        return ""  # without the right to read Leases nothing can be said about hubs
    leases = [each for each in found if str(each["metadata"]["name"]).startswith(leadership.NAME)]
    return programs.no_hub(leases, target.server_time(kube))
