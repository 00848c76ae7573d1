"""Any Kubernetes API by its kubeconfig, through kubectl: a test cluster (cluster.py) or one that the user named."""

from __future__ import annotations

import functools
import json
import subprocess
from pathlib import Path
from typing import Any

from tests.support.kube.assets import assets
from tests.support.processes import wait_until

KUBECTL_SECONDS = 120.0
CRD_SECONDS = 100.0


class KubectlError(AssertionError):
    """kubectl failed; the text has the command and its error."""


class Kubernetes:
    """An existing API, with the rights of its kubeconfig."""

    def __init__(self, kubeconfig: Path) -> None:
        self.kubeconfig = kubeconfig

    @functools.cached_property
    def assets(self) -> Path:
        """The folder that holds kubectl."""
        return assets("kubectl")

    def kubectl(self, *arguments: str, stdin: str = "", check: bool = True) -> str:
        """Run kubectl and return its standard output; raises KubectlError unless `check` is False."""
        done = subprocess.run(
            [str(self.assets / "kubectl"), f"--kubeconfig={self.kubeconfig}", *arguments],
            input=stdin,
            capture_output=True,
            text=True,
            timeout=KUBECTL_SECONDS,
        )
        if check and done.returncode != 0:
            raise KubectlError(f"kubectl {' '.join(arguments)} exited with {done.returncode}: {done.stderr.strip()}")
        return done.stdout

    def apply(self, manifest: Path | str | dict[str, Any] | list[dict[str, Any]]) -> str:
        """kubectl apply of a file or folder (Path), YAML text (str), or objects (dict or list of them)."""
        if isinstance(manifest, Path):
            return self.kubectl("apply", "-f", str(manifest))
        if isinstance(manifest, list):
            manifest = {"apiVersion": "v1", "kind": "List", "items": manifest}
        text = manifest if isinstance(manifest, str) else json.dumps(manifest)
        return self.kubectl("apply", "-f", "-", stdin=text)

    def get(self, path: str) -> dict[str, Any]:
        """GET a path of the API and decode it; raises if it does not exist."""
        answer: dict[str, Any] = json.loads(self.kubectl("get", "--raw", path))
        return answer

    def tails(self) -> str:
        """The end of the logs of programs started here, for failure texts; empty for a cluster of the user."""
        return ""

    def wait_established(self, *crds: str) -> None:
        """Wait until these CRDs (`plural.group`) are established and can be listed.

        The first list of a new CRD may answer 429 while its storage comes up; after this it does not.
        """
        for crd in crds:
            wait_until(
                f"CRD {crd} is established and can be listed",
                functools.partial(self._can_list, crd),
                seconds=CRD_SECONDS,
                describe=self.tails,
            )

    def _can_list(self, crd: str) -> bool:
        found = self.get(f"/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{crd}")
        conditions = {each["type"]: each["status"] for each in found.get("status", {}).get("conditions") or []}
        if conditions.get("Established") != "True":
            return False
        spec = found["spec"]
        return all(
            "items" in self.get(f"/apis/{spec['group']}/{version['name']}/{spec['names']['plural']}?limit=1")
            for version in spec["versions"]
            if version["served"]
        )
