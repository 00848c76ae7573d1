"""What renewing certificates costs: a hub with 2,000 sessions that all ask at once, and an agent's memory.

python -m benchmarks.downstream.renewal_cost [SESSIONS]   →  one JSON line

The hub's part is real (request checked, signed by an authority in files, answered in the session, EdgeNode wanted); the
sockets are left out.  The edge's part is the child process that makes a key and a request.
"""

from __future__ import annotations

import asyncio
import datetime
import json
import resource
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

from cryptography.hazmat.primitives.asymmetric import ec
from tests.support.hubs.hub_core import Core
from tests.support.joining import pki

from fairlead_edge.io.identity import keys
from fairlead_hub.delivery.identities import NodeCertificate
from fairlead_hub.io.identity.file_signer import FileSigner
from fairlead_hub.io.identity.issuing import Issuing
from fairlead_hub.io.identity.renewal_service import RenewalService
from fairlead_hub.session_ref import SessionRef
from fairlead_wire import message
from fairlead_wire.link import codec

SESSIONS = 2000
KEYS = 20


async def hub(sessions: int, folder: Path) -> dict[str, float]:
    """Renewals a second on one core, and milliseconds of CPU for each."""
    names = [f"edge-{number}" for number in range(sessions)]
    core = Core(*names)
    root = pki.Authority(folder / "edges", "edges")
    signer = FileSigner(root.certificate, root.key)
    issuing = Issuing(signer, installation="fairlead", days=90, wall=time.time, refusal=lambda: None)
    counts: Counter[str] = Counter()
    service = RenewalService(core.hub, issuing, roots=bytes, issuers=bytes, clock=lambda: core.now, counts=counts)
    core.hub.identities.plan.signs(lambda: signer.authority)
    now = datetime.datetime.now(datetime.UTC)
    times = [f"{now + datetime.timedelta(days=days):%Y-%m-%dT%H:%M:%SZ}" for days in (-60, 30)]
    shown = NodeCertificate(issued=times[0], expires=times[1], serial="1", issuer="edges")
    asked: list[tuple[SessionRef, bytes]] = []
    for name in names:
        session = core.hub.sessions.open(name, core.hello(name), core.now, shown)
        assert isinstance(session, SessionRef)
        core.frames(session)
        asked.append((session, pki.signing_request(ec.generate_private_key(ec.SECP256R1()))))
    working = asyncio.create_task(service.run())
    began, cpu = time.perf_counter(), time.process_time()
    for session, request in asked:
        service.accept(session, message.Renew(id=1), request)
    while counts["renewed"] < sessions:  # noqa: ASYNC110 - the workers take their turns meanwhile
        await asyncio.sleep(0)
    for session, _ in asked:
        for header, content in core.frames(session):
            codec.encode(header, content)
    seconds, cpu = time.perf_counter() - began, time.process_time() - cpu
    working.cancel()
    return {"renewals_per_second": round(sessions / seconds), "cpu_milliseconds": round(1000 * cpu / sessions, 3)}


async def edge() -> dict[str, float]:
    """Seconds for a key and a request, and what the agent's process grew by."""
    before, began = _resident(), time.perf_counter()
    for _ in range(KEYS):
        await keys.make()
    seconds = (time.perf_counter() - began) / KEYS
    child = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024
    return {
        "key_seconds": round(seconds, 3),
        "child_mebibytes": round(child, 1),
        "agent_grew_mebibytes": round((_resident() - before) / 2**20, 1),
    }


def _resident() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()


def main() -> int:
    """Both, as one line."""
    sessions = int(sys.argv[1]) if len(sys.argv) > 1 else SESSIONS
    with tempfile.TemporaryDirectory() as folder:
        found = {"sessions": sessions, "hub": asyncio.run(hub(sessions, Path(folder))), "edge": asyncio.run(edge())}
    sys.stdout.write(json.dumps(found) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
