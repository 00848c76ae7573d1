"""What runs on the node: the text of every configuration file and the flags of every program.

Pure: a plan in, text and commands out. The settings that are not obvious carry the reason; most were found by a Pod
that stayed in ContainerCreating.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from e2e.node.plan import Plan

PAUSE_IMAGE = "localhost/pause:e2e"
CNI_FOLDER = "/usr/lib/cni"
CLUSTER_DOMAIN = "cluster.local"

USERS: Mapping[str, tuple[str, str]] = {
    "admin": ("admin", "system:masters"),
    "node": ("system:node:{node}", "system:nodes"),
    "scheduler": ("system:kube-scheduler", ""),
    "controllers": ("system:kube-controller-manager", ""),
    "proxy": ("system:kube-proxy", ""),
    "dns": ("fairlead:dns", "system:masters"),
}
"""Who asks the API server: our name for it, then user and group."""

SYSCTLS: Mapping[str, str] = {
    "vm/overcommit_memory": "1",
    "vm/panic_on_oom": "0",
    "kernel/panic": "10",
    "kernel/panic_on_oops": "1",
    "kernel/keys/root_maxkeys": "1000000",
    "kernel/keys/root_maxbytes": "25000000",
}
"""What kubelet sets for the whole machine unless it already reads so; init shows it files that do."""


def files(plan: Plan, tokens: Mapping[str, str], ca: Path) -> dict[str, str]:
    """Every file below the plan's folder, by relative path. `tokens`: one bearer token for each of USERS."""
    return {
        "containerd.toml": containerd(plan),
        "cni/10-pods.conflist": json.dumps(cni(plan)),
        "kubelet.yaml": json.dumps(kubelet(plan)),
        "proxy.yaml": json.dumps(proxy(plan)),
        "Corefile": corefile(plan),
        "resolv.conf": f"nameserver {plan.address}\n",
        "pki/tokens.csv": "".join(
            f'{tokens[name]},{user.format(node=plan.name)},{name},"{group}"\n' for name, (user, group) in USERS.items()
        ),
        **{plan.kubeconfig(name).name: json.dumps(kubeconfig(plan, tokens[name], ca)) for name in USERS},
    }


def kubeconfig(plan: Plan, token: str, ca: Path) -> dict[str, Any]:
    """A kubeconfig as a dict; JSON is YAML. The context is `fairlead`."""
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "fairlead", "cluster": {"server": plan.api, "certificate-authority": str(ca)}}],
        "users": [{"name": "user", "user": {"token": token}}],
        "contexts": [{"name": "fairlead", "context": {"cluster": "fairlead", "user": "user"}}],
        "current-context": "fairlead",
    }


def containerd(plan: Plan) -> str:
    """containerd 1.6 and 1.7; its runtime state lies in the namespace's own /run."""
    return f"""\
version = 2
root = "{plan.folder}/containerd"
state = "/run/containerd"
oom_score = 0
disabled_plugins = [
  "io.containerd.snapshotter.v1.btrfs", "io.containerd.snapshotter.v1.zfs", "io.containerd.snapshotter.v1.aufs",
  "io.containerd.snapshotter.v1.devmapper", "io.containerd.internal.v1.opt",
]
[grpc]
  address = "{plan.containerd_socket}"
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "{PAUSE_IMAGE}"
  # Lowering an oom score needs CAP_SYS_RESOURCE; without this runc dies with "can't get final child's PID from pipe".
  restrict_oom_score_adj = true
  disable_apparmor = true
  disable_hugetlb_controller = true
  tolerate_missing_hugetlb_controller = true
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "{CNI_FOLDER}"
    conf_dir = "{plan.folder}/cni"
  [plugins."io.containerd.grpc.v1.cri".containerd]
    snapshotter = "overlayfs"
    default_runtime_name = "runc"
    [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
      runtime_type = "io.containerd.runc.v2"
      [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc.options]
        SystemdCgroup = false
"""


def cni(plan: Plan) -> dict[str, Any]:
    """Pods on a bridge, masqueraded outwards, with host ports."""
    ipam = {
        "type": "host-local",
        "dataDir": f"{plan.folder}/cni-addresses",
        "ranges": [[{"subnet": plan.pods}]],
        "routes": [{"dst": "0.0.0.0/0"}],
    }
    bridge = {"type": "bridge", "bridge": "cni0", "isGateway": True, "ipMasq": True, "hairpinMode": True, "ipam": ipam}
    return {
        "cniVersion": "0.4.0",
        "name": "pods",
        "plugins": [bridge, {"type": "portmap", "capabilities": {"portMappings": True}}],
    }


def kubelet(plan: Plan) -> dict[str, Any]:
    """KubeletConfiguration: cgroupfs below our own root, no limit it may not set, no early eviction."""
    return {
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "containerRuntimeEndpoint": f"unix://{plan.containerd_socket}",
        "failCgroupV1": False,
        "failSwapOn": False,
        "cgroupDriver": "cgroupfs",
        "cgroupRoot": f"/{plan.cgroup}",
        "cgroupsPerQOS": True,
        "enforceNodeAllocatable": ["pods"],
        "resolvConf": f"{plan.folder}/resolv.conf",
        # The default of a million needs CAP_SYS_RESOURCE where the hard limit is lower.
        "maxOpenFiles": 20000,
        "oomScoreAdj": 0,
        "clusterDNS": [plan.address],
        "clusterDomain": CLUSTER_DOMAIN,
        "localStorageCapacityIsolation": True,
        "evictionHard": {
            "memory.available": "200Mi",
            "nodefs.available": "1%",
            "imagefs.available": "1%",
            "nodefs.inodesFree": "1%",
        },
        "imageGCHighThresholdPercent": 100,
        "imageGCLowThresholdPercent": 99,
        "authentication": {"anonymous": {"enabled": True}, "webhook": {"enabled": False}},
        "authorization": {"mode": "AlwaysAllow"},
        "nodeStatusUpdateFrequency": "5s",
        "fileCheckFrequency": "1h",
        "syncFrequency": "10s",
        "podLogsDir": f"{plan.logs}/pods",
        "volumePluginDir": f"{plan.folder}/kubelet/volumeplugins",
        "registerNode": True,
        "healthzPort": 10248,
    }


def proxy(plan: Plan) -> dict[str, Any]:
    """KubeProxyConfiguration: iptables, and hands off the machine's connection tracking limits."""
    return {
        "apiVersion": "kubeproxy.config.k8s.io/v1alpha1",
        "kind": "KubeProxyConfiguration",
        "mode": "iptables",
        "hostnameOverride": plan.name,
        "clientConnection": {"kubeconfig": str(plan.kubeconfig("proxy"))},
        "clusterCIDR": plan.pods,
        "conntrack": {"maxPerCore": 0, "min": 0, "tcpEstablishedTimeout": "0s", "tcpCloseWaitTimeout": "0s"},
        "bindAddress": "0.0.0.0",
    }


def corefile(plan: Plan) -> str:
    """CoreDNS on the node's address, a plain process: one Pod fewer to wait for."""
    return f"""\
.:53 {{
  bind {plan.address}
  errors
  kubernetes {CLUSTER_DOMAIN} in-addr.arpa {{
    kubeconfig {plan.kubeconfig("dns")} fairlead
    pods insecure
  }}
}}
"""


def first(plan: Plan, assets: Path) -> dict[str, list[str]]:
    """What starts at once: containerd, etcd, kube-apiserver."""
    pki = plan.pki
    return {
        "containerd": ["containerd", "--config", f"{plan.folder}/containerd.toml"],
        "etcd": [
            f"{assets}/etcd",
            f"--data-dir={plan.folder}/etcd",
            "--listen-client-urls=http://127.0.0.1:2379",
            "--advertise-client-urls=http://127.0.0.1:2379",
            "--listen-peer-urls=http://127.0.0.1:2380",
            "--unsafe-no-fsync",
        ],
        "kube-apiserver": [
            f"{assets}/kube-apiserver",
            "--etcd-servers=http://127.0.0.1:2379",
            "--bind-address=0.0.0.0",
            f"--advertise-address={plan.address}",
            "--secure-port=6443",
            f"--cert-dir={pki}",
            f"--tls-cert-file={pki}/apiserver.crt",
            f"--tls-private-key-file={pki}/apiserver.key",
            "--service-account-issuer=https://kubernetes.default.svc",
            f"--service-account-key-file={pki}/service-account.pub",
            f"--service-account-signing-key-file={pki}/service-account.key",
            f"--token-auth-file={pki}/tokens.csv",
            "--authorization-mode=Node,RBAC",
            "--enable-admission-plugins=NodeRestriction",
            f"--service-cluster-ip-range={plan.services}",
            "--allow-privileged=true",
            "--kubelet-preferred-address-types=InternalIP",
        ],
    }


def second(plan: Plan, assets: Path) -> dict[str, list[str]]:
    """What starts when the API server is ready."""
    pki = plan.pki
    return {
        "kube-controller-manager": [
            f"{assets}/kube-controller-manager",
            f"--kubeconfig={plan.kubeconfig('controllers')}",
            "--use-service-account-credentials",
            f"--service-account-private-key-file={pki}/service-account.key",
            f"--root-ca-file={pki}/ca.crt",
            "--leader-elect=false",
            "--secure-port=10257",
            # The defaults (20 queries a second, a look at nodes every 5 s) delay the first Deployment by 5 s.
            "--node-monitor-period=1s",
            "--kube-api-qps=300",
            "--kube-api-burst=600",
        ],
        "kube-scheduler": [
            f"{assets}/kube-scheduler",
            f"--kubeconfig={plan.kubeconfig('scheduler')}",
            "--leader-elect=false",
        ],
        "kubelet": [
            f"{assets}/kubelet",
            f"--config={plan.folder}/kubelet.yaml",
            f"--kubeconfig={plan.kubeconfig('node')}",
            f"--hostname-override={plan.name}",
            f"--node-ip={plan.address}",
            f"--root-dir={plan.folder}/kubelet",
            f"--cert-dir={pki}/kubelet",
        ],
        "kube-proxy": [f"{assets}/kube-proxy", f"--config={plan.folder}/proxy.yaml"],
        "coredns": [f"{assets}/coredns", "-conf", f"{plan.folder}/Corefile"],
    }
