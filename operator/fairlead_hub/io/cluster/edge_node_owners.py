"""EdgeNodes made by an older version belong to their Nodes, and would go with them: what they remember must stay.

With certificates, an EdgeNode says which life of its Node they were used in (``identities``).  The owner is taken off
once, after a start; those made now have none.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from fairlead_hub.cluster import api_json
from fairlead_hub.io.cluster.api_error import Refused, Unavailable
from fairlead_hub.io.cluster.kube import MERGE_PATCH, REQUEST_SECONDS, Kube
from fairlead_wire.errors import Malformed
from fairlead_wire.io import logs

ROOT = "apis/fairlead.dev/v1alpha1/edgenodes"
CHUNK = 500
RETRY_SECONDS = 5.0
_log = logs.get("hub.edge_nodes")


async def drop(kube: Kube, *, seconds_left: Callable[[], float] = lambda: REQUEST_SECONDS) -> None:
    """Returns when none has an owner any more; tries again until then.  ``seconds_left``: how long a write may take."""
    while True:
        try:
            await _drop_all(kube, seconds_left)
        except (Refused, Unavailable, Malformed) as error:
            remedy = "the hub's account needs patch on edgenodes"
            _log.warning("edge_node_owned", reason=str(error), remedy=remedy, retry_seconds=RETRY_SECONDS)
            await asyncio.sleep(RETRY_SECONDS)
        else:
            return


async def _drop_all(kube: Kube, seconds_left: Callable[[], float]) -> None:
    params = {"limit": str(CHUNK)}
    while True:
        page = api_json.page(await kube.get(ROOT, **params))
        for raw in page.items:
            body = api_json.document(raw)[0]
            if body.get("metadata", {}).get("ownerReferences"):
                await _drop_one(kube, api_json.header_of(body), seconds_left())
        if not page.next:
            return
        params["continue"] = page.next


async def _drop_one(kube: Kube, header: api_json.Header, seconds: float) -> None:
    change = {"metadata": {"ownerReferences": None, "resourceVersion": header.version}}
    try:
        await kube.request("PATCH", f"{ROOT}/{header.name}", change, content_type=MERGE_PATCH, seconds=seconds)
    except Refused as error:
        if error.status == 409:  # written meanwhile, by our own writer most likely: once more
            raise Unavailable(f"EdgeNode {header.name} changed meanwhile") from None
        if error.status != 404:
            raise
