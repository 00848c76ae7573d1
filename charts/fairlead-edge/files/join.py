"""Init container: a node without an identity joins by the token in a Secret; one that has an identity needs no token.

    /data/identity/node.pem is there ─▶ done
    a token is there ─▶ fairlead edge join: the key is made on this node, in /data, and stays there
    neither ─▶ says how to make a token, exit 1; the kubelet tries again, and the Secret may come later

Standard library only; the agent's own settings are the chart's, so those that joining writes are thrown away.
"""

import os
import subprocess
import sys
from pathlib import Path

DATA = Path(os.environ.get("DATA", "/data"))
TOKEN = Path(os.environ.get("TOKEN_FILE", "/etc/fairlead/token/token"))
SCRATCH = Path(os.environ.get("SCRATCH", "/tmp"))


def main() -> int:
    node, secret = os.environ["FAIRLEAD_EDGE_NODE"], os.environ["TOKEN_SECRET"]
    if (DATA / "identity" / "node.pem").exists():
        print(f"{node} has its identity; no token is needed")
        return 0
    if not TOKEN.exists():
        print(f"{node} has no identity yet, and there is no token for it: make one and put it into Secret {secret}")
        print("  fairlead token create --node", node, "-o jsonpath={.token} > token")
        print(f"  kubectl create secret generic {secret} --from-file=token")
        return 1
    config = SCRATCH / "join.toml"
    config.write_text(f'data_dir = "{DATA}"\n')
    command = ["fairlead", "edge", "join", os.environ["HUB_URL"], "--token-file", str(TOKEN), "--config", str(config)]
    return subprocess.run(command, check=False).returncode


sys.exit(main())
