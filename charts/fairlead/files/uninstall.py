"""Asked for by `uninstall.removeCustomResources`: deletes Fairlead's definitions, and with them all their objects."""

import os
import ssl
import sys
import time
import urllib.error
import urllib.request

ACCOUNT = "/var/run/secrets/kubernetes.io/serviceaccount"
PLURALS = ("syncrules", "edgeroutes", "objectsyncs", "clusterobjectsyncs", "edgenodes", "jointokens")
DEADLINE_SECONDS = 100.0


def call(method: str, plural: str) -> int:
    host, port = os.environ["KUBERNETES_SERVICE_HOST"], os.environ["KUBERNETES_SERVICE_PORT"]
    url = f"https://{host}:{port}/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{plural}.fairlead.dev"
    with open(f"{ACCOUNT}/token") as token:
        request = urllib.request.Request(url, method=method, headers={"Authorization": f"Bearer {token.read()}"})
    try:
        context = ssl.create_default_context(cafile=f"{ACCOUNT}/ca.crt")
        with urllib.request.urlopen(request, context=context, timeout=20) as answer:
            return answer.status
    except urllib.error.HTTPError as error:
        if error.code == 404:
            return 404
        raise


def main() -> int:
    deadline = time.monotonic() + DEADLINE_SECONDS
    left = [plural for plural in PLURALS if call("DELETE", plural) != 404]
    while left:
        if time.monotonic() > deadline:
            print("still there:", ", ".join(left), file=sys.stderr)
            return 1
        time.sleep(0.5)
        left = [plural for plural in left if call("GET", plural) != 404]
    print("custom resource definitions removed:", ", ".join(PLURALS))
    return 0


sys.exit(main())
