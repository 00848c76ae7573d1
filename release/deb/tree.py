"""The files of the package, in a folder that looks like the system's root."""

from __future__ import annotations

import gzip
import os
import platform
import re
import shutil
import subprocess
import sys
from datetime import UTC, datetime
from email.utils import format_datetime
from importlib.metadata import distribution as installed
from pathlib import Path

from e2e.images import closure, layers, native

from fairlead_wire import distribution
from release.source import ReleaseError, Source

NAME = "fairlead-edge"
FILES = Path(__file__).resolve().parent / "files"
CODE = ("wire/fairlead_wire", "edge_agent/fairlead_edge", "cli/fairlead_cli")
SITE = Path("usr/lib/fairlead")
DOC = Path("usr/share/doc") / NAME
SCRIPTS = ("postinst", "prerm", "postrm")
MAINTAINER = "The Fairlead project <maintainers@fairlead.dev>"
ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64", "armv7l": "armhf"}


def architecture() -> str:
    """This machine's architecture, as Debian calls it."""
    try:
        return ARCHITECTURES[platform.machine()]
    except KeyError:
        raise ReleaseError(
            f"no name in Debian is known for {platform.machine()}; add it to release/deb/tree.py"
        ) from None


def debian_version(version: str) -> str:
    """The Debian version: 0.2.0rc1 becomes 0.2.0~rc1, which sorts before 0.2.0; then the package's Python version."""
    major, minor = sys.version_info[:2]
    return re.sub(r"(?<=\d)\.?(a|b|rc|dev)(?=\d)", r"~\1", version) + f"+py{major}.{minor}"


def fill(source: Source, root: Path, *, version: str) -> None:
    """All files, including control files; modes do not depend on the umask."""
    _code(source, root, version)
    _system(source, root)
    _documents(source, root, version)
    _control(source, root, version)
    for path in [root, *root.rglob("*")]:
        if path.is_symlink():
            continue
        programs = path.is_dir() or path.parent == root / "usr/bin" or path.name in SCRIPTS
        path.chmod(0o755 if programs else 0o644)


def _code(source: Source, root: Path, version: str) -> None:
    site = root / SITE
    for found in closure.closure(distribution.NAME, "edge"):
        layers.copy_distribution(found, site)
    for folder in CODE:
        shutil.copytree(source.root / folder, site / Path(folder).name, ignore=shutil.ignore_patterns("__pycache__"))
    metadata = site / layers.metadata_file(version)
    metadata.parent.mkdir()
    text = installed(distribution.NAME).read_text("METADATA") or ""
    metadata.write_text(re.sub(r"(?m)^Version: .*$", f"Version: {version}", text, count=1))
    # What an installer wrote down about itself differs between machines.
    for name in ("RECORD", "INSTALLER", "REQUESTED", "direct_url.json"):
        for path in site.glob(f"*.dist-info/{name}"):
            path.unlink()
    _strip(site)
    # Byte code is part of the package, so that a removal leaves none behind and a read-only /usr is fine.
    layers.compile_all(root)
    program = root / "usr/bin/fairlead"
    program.parent.mkdir(parents=True)
    shutil.copyfile(FILES / "fairlead", program)


def _strip(site: Path) -> None:
    """Remove symbols that only debuggers and linkers read; libraries edited by wheels after linking are not changed."""
    extensions = sorted(str(path) for path in native.binaries(site) if ".libs/" not in str(path))
    subprocess.run(["strip", "--strip-unneeded", *extensions], check=True, stdin=subprocess.DEVNULL)


def _system(source: Source, root: Path) -> None:
    ours = source.root / "charts/fairlead-edge/systemd"
    unit = root / "usr/lib/systemd/system" / f"{NAME}.service"
    unit.parent.mkdir(parents=True)
    text = (ours / unit.name).read_text()
    unit.write_text(text.replace("/opt/fairlead/bin/fairlead", "/usr/bin/fairlead"))
    users = root / "usr/lib/sysusers.d" / f"{NAME}.conf"
    users.parent.mkdir(parents=True)
    shutil.copyfile(FILES / "sysusers.conf", users)
    settings = root / "etc/fairlead/edge.toml"
    settings.parent.mkdir(parents=True)
    shutil.copyfile(ours / "edge.toml", settings)


def _documents(source: Source, root: Path, version: str) -> None:
    folder = root / DOC
    folder.mkdir(parents=True)
    year = datetime.fromtimestamp(source.epoch, UTC).year
    lines = (FILES / "copyright").read_text().rstrip().splitlines()
    for found in closure.closure(distribution.NAME, "edge"):
        said = found.metadata.json
        licence = str(said.get("license_expression") or said.get("license") or "see its own files")
        lines += ["", f"Files: usr/lib/fairlead/{found.name}*", f"Copyright: {year} the authors of {found.name}"]
        lines += [f"License: {licence.splitlines()[0][:70]}"]
    (folder / "copyright").write_text("\n".join(lines) + "\n")
    when = format_datetime(datetime.fromtimestamp(source.epoch, UTC))
    change = (
        f"{NAME} ({debian_version(version)}) stable; urgency=medium\n\n"
        f"  * Release {version}; what changed: CHANGELOG.md of the project.\n\n -- {MAINTAINER}  {when}\n"
    )
    (folder / "changelog.gz").write_bytes(gzip.compress(change.encode(), 9, mtime=source.epoch))
    shutil.copyfile(FILES / "README.Debian", folder / "README.Debian")
    manual = root / "usr/share/man/man1/fairlead.1.gz"
    manual.parent.mkdir(parents=True)
    manual.write_bytes(gzip.compress((FILES / "fairlead.1").read_bytes(), 9, mtime=source.epoch))
    overrides = root / "usr/share/lintian/overrides" / NAME
    overrides.parent.mkdir(parents=True)
    shutil.copyfile(FILES / "lintian-overrides", overrides)


def _control(source: Source, root: Path, version: str) -> None:
    control = root / "DEBIAN"
    control.mkdir()
    major, minor = sys.version_info[:2]
    kilobytes = sum(-(-path.stat().st_size // 1024) or 1 for path in root.rglob("*") if path.is_file())
    text = (FILES / "control").read_text()
    control.joinpath("control").write_text(
        text.format(
            version=debian_version(version),
            architecture=architecture(),
            kilobytes=kilobytes,
            maintainer=MAINTAINER,
            python=f"{major}.{minor}",
            next_python=f"{major}.{minor + 1}",
            glibc=_glibc(root / SITE),
        )
    )
    (control / "conffiles").write_text("/etc/fairlead/edge.toml\n")
    for name in SCRIPTS:
        shutil.copyfile(FILES / name, control / name)


def _glibc(site: Path) -> str:
    """The newest version of the C library that any of the binaries requires."""
    wanted = {
        tuple(int(part) for part in found.split(b"."))
        for path in native.binaries(site)
        for found in re.findall(rb"GLIBC_(\d+\.\d+)\0", path.read_bytes())
    }
    return ".".join(str(part) for part in max(wanted, default=(2, 28)))


def sums(root: Path) -> None:
    """The digests that `dpkg --verify` compares with."""
    files = sorted(path for path in root.rglob("*") if path.is_file() and root / "DEBIAN" not in path.parents)
    done = subprocess.run(
        ["md5sum", *(str(path.relative_to(root)) for path in files)],
        cwd=root, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=True,
        env={**os.environ, "LC_ALL": "C"},
    )  # fmt: skip
    settings = "etc/fairlead/edge.toml"
    lines = [line for line in done.stdout.splitlines(keepends=True) if not line.rstrip().endswith(settings)]
    (root / "DEBIAN/md5sums").write_text("".join(lines))
    (root / "DEBIAN/md5sums").chmod(0o644)
