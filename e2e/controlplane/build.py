#!/usr/bin/env python3
"""Build the pinned control plane once, and print its folder.

    build.py                     kube-apiserver, kube-controller-manager, etcd, kubectl
    build.py --with node         also what a real node needs: scheduler, kubelet, kube-proxy, CoreDNS, helm
    build.py kube-apiserver helm exactly these
    build.py cert-manager        its controllers, and its definitions (crds/)
    build.py versitygw           an object store (S3), not part of Kubernetes

    KUBEBUILDER_ASSETS ──has it──────────────┐
                                             ├─► one folder, printed alone on the last line of stdout
    go.mod + go.sum ──go build──► the cache ─┘

Plain Python, standard library only: it runs before any virtual environment exists. Each `<module>/go.mod` beside this
file pins versions and its go.sum pins content; the cache folder is named by the hash of all of them, so a changed pin
causes a new build and versions never mix. What few tests need is APART, in its own folder.
Progress goes to standard error. Exit 0 with the folder; exit 1 with a message that says what to do. Several builds
may run at once: each program has its own lock and is created by an atomic rename, so finished ones can be used while
the rest still builds.
"""

from __future__ import annotations

import argparse
import contextlib
import fcntl
import hashlib
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).resolve().parent
PROGRESS_EVERY_SECONDS = 30.0
POLL_SECONDS = 0.5
LINK_SHARE = 0.02
"""Share of a build for the linker, whose progress is unknown (measured: 4.4 s of 283 s for kube-apiserver)."""
ESTIMATE_AFTER_SECONDS = 60.0
"""Before, this machine's speed is not known well enough."""
WHY = "compiled from pinned Go sources, which takes minutes and happens once for each set of pins"
LOG_TAIL_LINES = 15
KEPT_CACHES = 4


@dataclass(frozen=True, kw_only=True)
class Program:
    """One binary: the module folder that pins it, its Go package, and how long it takes.

    `seconds` is the measured wall time on two cores with an empty build cache, in the order of DEFAULT and NODE (the
    first program of a module includes the packages that the others share).
    """

    module: str
    package: str
    seconds: int
    beside: str = ""
    """A folder of cert-manager's Go module whose YAML files are copied to `crds/`."""


PROGRAMS: Mapping[str, Program] = {
    "etcd": Program(module="etcd", package="go.etcd.io/etcd/server/v3", seconds=40),
    "kube-apiserver": Program(module="kubernetes", package="k8s.io/kubernetes/cmd/kube-apiserver", seconds=215),
    "kube-controller-manager": Program(
        module="kubernetes", package="k8s.io/kubernetes/cmd/kube-controller-manager", seconds=75
    ),
    "kubectl": Program(module="kubernetes", package="k8s.io/kubernetes/cmd/kubectl", seconds=25),
    "kube-scheduler": Program(module="kubernetes", package="k8s.io/kubernetes/cmd/kube-scheduler", seconds=10),
    "kube-proxy": Program(module="kubernetes", package="k8s.io/kubernetes/cmd/kube-proxy", seconds=10),
    "kubelet": Program(module="kubernetes", package="k8s.io/kubernetes/cmd/kubelet", seconds=25),
    "coredns": Program(module="coredns", package="github.com/coredns/coredns", seconds=90),
    "helm": Program(module="helm", package="helm.sh/helm/v3/cmd/helm", seconds=115),
    "cert-manager": Program(module="certmanager", package=".", seconds=110, beside="deploy/crds"),
    "versitygw": Program(module="versitygw", package="github.com/versity/versitygw/cmd/versitygw", seconds=60),
}
APART = ("certmanager", "versitygw")
"""Modules with their own cache folder."""
CERT_MANAGER = "github.com/cert-manager/cert-manager"
DEFAULT = ("etcd", "kube-apiserver", "kube-controller-manager", "kubectl")
NODE = ("kube-scheduler", "kube-proxy", "kubelet", "coredns", "helm")


@dataclass(frozen=True, kw_only=True)
class Compilation:
    """Progress of one `go build`: Go packages `compiled` of the total; both 0 until they are counted."""

    packages: int = 0
    compiled: int = 0

    @property
    def share(self) -> float:
        """0 to 1 - LINK_SHARE; the rest is done when the program exists."""
        return (1 - LINK_SHARE) * min(1.0, self.compiled / self.packages) if self.packages else 0.0

    def __str__(self) -> str:
        if not self.packages:
            return "loading modules"
        if self.compiled >= self.packages:
            return f"linking {self.packages} packages"
        return f"{self.compiled} of {self.packages} packages"


def remaining(share: float, seconds: float) -> str:
    """The remaining time, estimated from the speed so far; empty in the first minute."""
    if seconds < ESTIMATE_AFTER_SECONDS or not 0 < share < 1:
        return ""
    return f"about {max(1, round(seconds * (1 - share) / share / 10)) * 10} s left"


def compilation(name: str, folder: Path) -> Compilation:
    """The progress of the program being built in `folder`, from its plan and its log."""
    try:
        packages = int((folder / f".{name}.packages").read_text())
        log = (folder / f"{name}.log").read_text(errors="replace")
    except (OSError, ValueError):
        return Compilation()
    # `go build -v` writes the import path of each package; what compilers and downloads say has spaces.
    compiled = sum(1 for each in log.splitlines() if each and " " not in each)
    return Compilation(packages=packages, compiled=compiled)


class BuildError(Exception):
    """An error that the user can fix; the text is the whole message."""


def say(text: str) -> None:
    """Print progress or errors on standard error, so that standard output is only one path."""
    print(f"control plane: {text}", file=sys.stderr, flush=True)


def pinned(module: str, path: str, modules: Path = HERE) -> str:
    """The version that `module`'s go.mod requires of Go module `path`, for example "v1.36.3"."""
    text = (modules / module / "go.mod").read_text()
    found = re.search(rf"^(?:require)?\s+{re.escape(path)} (v\S+)", text, re.MULTILINE)
    if found is None:
        raise BuildError(f"{modules / module / 'go.mod'} does not require {path}; add it and run go mod tidy there")
    return found.group(1)


def stamps(module: str) -> dict[str, str]:
    """The -X values of a module: without them the API server reports v0.0.0 and clients complain."""
    if module == "kubernetes":
        version = pinned(module, "k8s.io/kubernetes")
        major, minor = version.removeprefix("v").split(".")[:2]
        package = "k8s.io/component-base/version"
        return {
            f"{package}.gitVersion": version,
            f"{package}.gitMajor": major,
            f"{package}.gitMinor": minor,
            f"{package}.gitTreeState": "clean",
            # The module proxy serves content by version, not by commit; the go.sum hash is what pins it.
            f"{package}.gitCommit": "0" * 40,
            f"{package}.buildDate": "1970-01-01T00:00:00Z",
        }
    if module == "helm":
        minor = pinned(module, "k8s.io/client-go").split(".")[1]
        return {
            "helm.sh/helm/v3/internal/version.version": pinned(module, "helm.sh/helm/v3"),
            "helm.sh/helm/v3/pkg/chartutil.k8sVersionMajor": "1",
            "helm.sh/helm/v3/pkg/chartutil.k8sVersionMinor": minor,
            "helm.sh/helm/v3/pkg/lint/rules.k8sVersionMajor": "1",
            "helm.sh/helm/v3/pkg/lint/rules.k8sVersionMinor": minor,
        }
    return {}


def fingerprint(modules: Path = HERE, only: str = "") -> str:
    """The cache key: 16 hex digits of a digest of every go.mod and go.sum, except those in APART.

    `only` names one module that is APART: its own program text counts as well.
    """
    digest = hashlib.sha256()
    folders = [modules / only] if only else [path for path in modules.iterdir() if path.name not in APART]
    for path in sorted(
        path for folder in folders for name in ("go.mod", "go.sum", "*.go") for path in folder.glob(name)
    ):
        digest.update(f"{path.parent.name}/{path.name}\0".encode())
        digest.update(path.read_bytes())
    return digest.hexdigest()[:16]


def place(name: str, cache: Path) -> Path:
    """The folder below `cache` in which a program is built."""
    module = PROGRAMS[name].module
    return cache / (f"apart-{module}-{fingerprint(only=module)}" if module in APART else fingerprint())


def cache_root(environ: Mapping[str, str]) -> Path:
    """$XDG_CACHE_HOME/fairlead/controlplane, or ~/.cache/fairlead/controlplane."""
    base = environ.get("XDG_CACHE_HOME") or str(Path(environ.get("HOME") or "~").expanduser() / ".cache")
    return Path(base).absolute() / "fairlead" / "controlplane"


def is_program(path: Path) -> bool:
    """True for an executable regular file (or a link to one)."""
    return path.is_file() and os.access(path, os.X_OK)


def assets_of(environ: Mapping[str, str]) -> Path | None:
    """The folder that KUBEBUILDER_ASSETS names, None when unset; an absent folder is an error, not a silent build."""
    value = environ.get("KUBEBUILDER_ASSETS", "")
    if not value:
        return None
    folder = Path(value).absolute()
    if not folder.is_dir():
        raise BuildError(f"KUBEBUILDER_ASSETS={value} is not a folder; unset it or point it at one with the programs")
    return folder


@contextlib.contextmanager
def locked(path: Path, waiting: str) -> Iterator[None]:
    """Hold an exclusive file lock; prints `waiting` once if another process holds it. Released at the process's end."""
    with path.open("w") as handle:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say(waiting)
            fcntl.flock(handle, fcntl.LOCK_EX)
        yield


def require_go(module: str) -> str:
    """The path of a Go that can build `module`, or a message that says what to install."""
    wanted = re.search(r"^go (\d+\.\d+)", (HERE / module / "go.mod").read_text(), re.MULTILINE)
    least = wanted.group(1) if wanted else "1.26"
    remedy = (
        f"install Go {least} or newer (https://go.dev/dl), "
        f"or set KUBEBUILDER_ASSETS to a folder that holds {', '.join(DEFAULT)}"
    )
    go = shutil.which("go")
    if go is None:
        raise BuildError(f"needs Go to build the Kubernetes programs and found none; {remedy}")
    asked = subprocess.run(
        [go, "env", "GOVERSION"], cwd=HERE / module, stdin=subprocess.DEVNULL, capture_output=True, text=True
    )
    if asked.returncode != 0:
        lines = asked.stderr.strip().splitlines() or ["no reason given"]
        raise BuildError(f"the installed Go cannot build the Kubernetes programs ({lines[-1]}); {remedy}")
    return go


def environment() -> dict[str, str]:
    """The environment of the go command."""
    # A compiler lives for seconds: it collects its garbage four times as late as a server would, for a tenth less work.
    return {"GOGC": "400", **os.environ, "CGO_ENABLED": "0"}


def plan(go: str, flags: Sequence[str], program: Program) -> int:
    """The number of packages missing in the build cache; 0 if Go cannot tell, in which case `go build` says why."""
    command = [go, "list", *flags, "-deps", "-f", "{{if .Stale}}{{.ImportPath}}{{end}}", program.package]
    done = subprocess.run(
        command, cwd=HERE / program.module, env=environment(), stdin=subprocess.DEVNULL, capture_output=True, text=True
    )
    return len(done.stdout.split()) if done.returncode == 0 else 0


def run_go(name: str, command: Sequence[str], module: str, folder: Path, position: str) -> None:
    """Run one `go build -v`, printing its progress; raises BuildError with the end of its log."""
    log = folder / f"{name}.log"
    started = said = time.monotonic()
    with log.open("wb") as output:
        # A session of its own, so that an interrupt takes the compilers along, not only the go command.
        process = subprocess.Popen(
            command, cwd=HERE / module, env=environment(), stdin=subprocess.DEVNULL, stdout=output,
            stderr=subprocess.STDOUT, start_new_session=True,
        )  # fmt: skip
        try:
            while True:
                try:
                    code = process.wait(timeout=POLL_SECONDS)
                    break
                except subprocess.TimeoutExpired:
                    now = time.monotonic()
                    if now - said >= PROGRESS_EVERY_SECONDS:
                        said, seen = now, compilation(name, folder)
                        words = [str(seen), f"{now - started:.0f} s", remaining(seen.share, now - started)]
                        say(f"{position} {name}: {', '.join(filter(None, words))}")
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
    if code != 0:
        tail = "\n  ".join(log.read_text(errors="replace").strip().splitlines()[-LOG_TAIL_LINES:])
        raise BuildError(f"building {name} failed (go exited with {code}); the end of {log}:\n  {tail}")
    say(f"{position} {name}: built in {time.monotonic() - started:.0f} s")


def build(name: str, folder: Path, position: str) -> Path:
    """Build `folder/name` under its own lock unless it exists; returns its path."""
    target = folder / name
    if is_program(target):
        return target
    with locked(folder / f".{name}.lock", f"{position} {name}: another build is making it; waiting"):
        if is_program(target):
            return target
        program = PROGRAMS[name]
        go = require_go(program.module)
        draft = folder / f".{name}.{os.getpid()}"
        flags = " ".join(["-s -w", *(f"-X {key}={value}" for key, value in stamps(program.module).items())])
        # The linker drops what debuggers read (-s -w), so the compiler need not write it: a twentieth less work.
        lean = "-gcflags=all=-dwarf=false"
        common = ["-mod=readonly", "-trimpath", "-buildvcs=false", lean, "-ldflags", flags]
        planned = folder / f".{name}.packages"
        try:
            planned.unlink(missing_ok=True)
            (folder / f"{name}.log").unlink(missing_ok=True)
            say(f"{position} {name}: loading modules")
            packages = plan(go, common, program)
            planned.write_text(str(packages))
            say(f"{position} {name}: {packages} packages to compile, then to link")
            command = [go, "build", "-v", *common, "-o", str(draft), program.package]
            run_go(name, command, program.module, folder, position)
            if program.beside:
                copy_beside(go, program, folder / "crds")
            draft.rename(target)
        finally:
            draft.unlink(missing_ok=True)
            if not is_program(target):  # else it stays: a reader that looks between would see the bar go back
                planned.unlink(missing_ok=True)
    return target


def copy_beside(go: str, program: Program, into: Path) -> None:
    """Files of the Go module that a program comes from."""
    asked = [go, "list", "-mod=readonly", "-m", "-f", "{{.Dir}}", CERT_MANAGER]
    done = subprocess.run(
        asked, cwd=HERE / program.module, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False
    )
    if done.returncode != 0:
        raise BuildError(f"{' '.join(asked)} failed: {done.stderr.strip()}")
    into.mkdir(exist_ok=True)
    for path in sorted((Path(done.stdout.strip()) / program.beside).glob("*.yaml")):
        (into / path.name).write_bytes(path.read_bytes())


def compose(sources: Mapping[str, Path], cache: Path) -> Path:
    """A folder of links to programs in different places, named by a digest of its content."""
    key = hashlib.sha256("\n".join(f"{name}={path}" for name, path in sorted(sources.items())).encode()).hexdigest()
    folder = cache / f"composed-{key[:16]}"
    folder.mkdir(parents=True, exist_ok=True)
    for name, path in sources.items():
        draft = folder / f".{name}.{os.getpid()}"
        draft.symlink_to(path)
        draft.rename(folder / name)
    return folder


def forget_old(cache: Path) -> None:
    """Keep the newest KEPT_CACHES folders of built programs; each is 300 MB and more."""
    own = ("composed-", "apart-")
    folders = [path for path in cache.iterdir() if path.is_dir() and not path.name.startswith(own)]
    for old in sorted(folders, key=lambda path: path.stat().st_mtime, reverse=True)[KEPT_CACHES:]:
        say(f"removing the programs of an older pin: {old}")
        shutil.rmtree(old, ignore_errors=True)


def provide(names: Sequence[str], environ: Mapping[str, str]) -> Path:
    """A folder with every program in `names`; builds those that are neither in KUBEBUILDER_ASSETS nor in the cache."""
    given = assets_of(environ)
    sources = {name: given / name for name in names if is_program(given / name)} if given else {}
    if given and len(sources) == len(names):
        return given
    cache = cache_root(environ)
    places = {name: place(name, cache) for name in names if name not in sources}
    for built in sorted(set(places.values())):
        fresh = not built.exists()
        built.mkdir(parents=True, exist_ok=True)
        os.utime(built)
        if fresh:
            forget_old(cache)
    absent = [name for name, built in places.items() if not is_program(built / name)]
    if absent:
        kept = ", ".join(str(built) for built in sorted({places[name] for name in absent}))
        say(f"building {', '.join(absent)}: {WHY}; kept in {kept}")
    for name, built in places.items():
        position = f"[{absent.index(name) + 1}/{len(absent)}]" if name in absent else ""
        sources[name] = build(name, built, position)
    whole = set(places.values())
    return compose(sources, cache) if given or len(whole) > 1 else whole.pop()


def parse(arguments: Sequence[str]) -> tuple[str, ...]:
    """The names to provide, in build order, without duplicates."""
    parser = argparse.ArgumentParser(description="build the pinned Kubernetes programs once and print their folder")
    parser.add_argument(
        "programs", nargs="*", metavar="PROGRAM", help=f"of {', '.join(PROGRAMS)}; default: {', '.join(DEFAULT)}"
    )
    parser.add_argument("--with", dest="extra", choices=["node"], help="node: also what a real node needs")
    options = parser.parse_args(arguments)
    unknown = [name for name in options.programs if name not in PROGRAMS]
    if unknown:
        parser.error(f"no such program: {', '.join(unknown)}; known are {', '.join(PROGRAMS)}")
    names = [*(options.programs or DEFAULT), *(NODE if options.extra == "node" else ())]
    return tuple(dict.fromkeys(names))


def end_as_by_ctrl_c() -> None:
    """Make SIGTERM, and SIGHUP of a closed terminal, act like Ctrl-C, so that child processes are ended, too."""

    def interrupted(number: int, frame: object) -> None:
        raise KeyboardInterrupt

    signal.signal(signal.SIGTERM, interrupted)
    if signal.getsignal(signal.SIGHUP) != signal.SIG_IGN:  # ignored: started with nohup, to go on without a terminal
        signal.signal(signal.SIGHUP, interrupted)


def main(arguments: Sequence[str]) -> int:
    """Run as a program; see the module's docstring."""
    names = parse(arguments)
    end_as_by_ctrl_c()
    try:
        folder = provide(names, os.environ)
    except BuildError as error:
        say(str(error))
        return 1
    except OSError as error:
        say(f"cannot use the cache folder: {error}; set XDG_CACHE_HOME to a folder that can be written")
        return 1
    except KeyboardInterrupt:
        say("interrupted; what was finished is kept")
        return 130
    print(folder)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
