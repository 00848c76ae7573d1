"""Follow one ConfigMap of this node, also over restarts of the agent:

    python follow.py http://127.0.0.1:10550 NAMESPACE NAME [TOKEN_FILE]

Prints a line of JSON for what is there now, and one for each change.  Needs the Kubernetes client
(pip install kubernetes); no cluster has to be reachable, for the agent on this node answers.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from kubernetes import client, watch
from urllib3.exceptions import HTTPError

RETRY_SECONDS = 0.2
WATCH_SECONDS = 600


def local_api(url: str, token_file: str = "") -> client.CoreV1Api:
    """The agent's own API.  With `security = "mtls"` it wants a token: the agent's `data_dir/token`, or a module's."""
    configuration = client.Configuration(host=url)
    if token_file:
        configuration.api_key["authorization"] = f"Bearer {Path(token_file).read_text().strip()}"
    configuration.retries = False  # the loop below asks again, and begins with a list
    return client.CoreV1Api(client.ApiClient(configuration))


def follow(api: client.CoreV1Api, namespace: str, name: str) -> Iterator[Any]:
    """The object now (None: there is none), then after each change.

    A list says what is there, a watch what happens from that version on.  When the watch ends, for whatever reason, the
    next list is compared with the last state that was seen, so that no change is missed in between.  After a restart of
    the agent the old version is answered with 410 Gone; that, too, only means: list again.
    """
    asked = {"namespace": namespace, "field_selector": f"metadata.name={name}"}
    seen: Any = ...
    while True:
        try:
            found = api.list_namespaced_config_map(**asked, _request_timeout=10)
            current = found.items[0] if found.items else None
            if seen is ... or identity(current) != identity(seen):
                yield current
            seen = current
            version = found.metadata.resource_version
            events = watch.Watch().stream(
                api.list_namespaced_config_map, **asked, resource_version=version, timeout_seconds=WATCH_SECONDS
            )
            for event in events:
                seen = None if event["type"] == "DELETED" else event["object"]
                yield seen
        except (client.ApiException, HTTPError):
            time.sleep(RETRY_SECONDS)  # the agent is being restarted, or the version is gone: list again


def identity(found: Any) -> tuple[str, str] | None:
    """Distinguishes two states of the object, also when it was deleted and made anew."""
    return None if found is None else (found.metadata.uid, found.metadata.resource_version)


def main() -> None:
    """Print what there is and every change, until interrupted."""
    url, namespace, name, *token_file = sys.argv[1:]
    for found in follow(local_api(url, *token_file), namespace, name):
        print(json.dumps({"at": time.time(), "data": None if found is None else found.data}), flush=True)


if __name__ == "__main__":
    main()
