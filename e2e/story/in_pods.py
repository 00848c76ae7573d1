"""Programs of a few lines that the story runs inside Pods."""

from __future__ import annotations

from e2e.story.manifests import SHOP

FROM_THE_POD = 50

# Run in the edge's Pod: its own API, its own token; the certificate is for the hub's eyes, not checked on loopback.
IN_POD = """
import json, ssl, sys, urllib.request
def call(method, path, body=None):
    request = urllib.request.Request("https://127.0.0.1:10550" + path, method=method,
        data=None if body is None else json.dumps(body).encode(),
        headers={"Authorization": "Bearer " + open("/data/token").read().strip(), "Content-Type": "application/json"})
    return json.load(urllib.request.urlopen(request, context=ssl._create_unverified_context(), timeout=60))
"""
READ_IN_POD = (
    IN_POD
    + f"""
print(json.dumps(call("GET", "/api/v1/namespaces/{SHOP}/configmaps/menu")["data"]))
"""
)
PUBLISH_IN_POD = (
    IN_POD
    + f"""
messages = [{{"source": "/messages/modules/pod/outputs/out", "body": {{"pod": n}}}} for n in range({FROM_THE_POD})]
print(json.dumps([result["id"] for result in call("POST", "/v1/messages", {{"messages": messages}})["results"]]))
"""
)
# What of authorities is in the hub's Pod, with modes as the kubelet made them (the group is the program's own).
FILES_OF_THE_HUB = """
import json, os
folder = "/etc/fairlead/authority"
modes = {name: f"{os.stat(os.path.join(folder, name)).st_mode & 0o777:o}" for name in ("tls.crt", "tls.key")}
print(json.dumps(modes))
"""
# At once: a thread of pyarrow that outlives the interpreter was seen to abort a program that had printed its answer.
AND_END = """
import os, sys
sys.stdout.flush()
os._exit(0)
"""
READ_TABLE = """
import json
from deltalake import DeltaTable
print(json.dumps(DeltaTable("/data/telemetry").to_pyarrow_table(columns=["id"])["id"].to_pylist()))
"""
CONTRACT = '{"columns": {"n": "bigint"}}'
"""`n` is in the messages from outside alone."""
COUNT_TYPED = """
from deltalake import DeltaTable
found = DeltaTable("/data/telemetry").to_pyarrow_table(columns=["n"])["n"]
print(len(found) - found.null_count)
"""
COUNT_FILES = """
from deltalake import DeltaTable
print(len(DeltaTable("/data/telemetry").file_uris()))
"""
