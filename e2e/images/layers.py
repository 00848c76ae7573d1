"""The content of each layer; every function fills an empty folder that becomes the root of a container."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Callable
from fnmatch import fnmatchcase
from importlib.metadata import Distribution
from importlib.metadata import distribution as installed
from pathlib import Path

from e2e.images import closure, native

from fairlead_wire import distribution

ROOT = Path(__file__).resolve().parents[2]
PREFIX = Path("usr/local")
PYTHON = f"python{sys.version_info.major}.{sys.version_info.minor}"
SITE = PREFIX / "lib" / PYTHON / "site-packages"
USER = 10001
STDLIB_LEFT_OUT = (
    "__pycache__", "site-packages", "test", "tests", "idlelib", "tkinter", "turtledemo", "ensurepip", "lib2to3",
    "pydoc_data", "config-*", "_tkinter.*", "_test*", "xxlimited*",
)  # fmt: skip
SOURCES = (
    "wire/fairlead_wire", "operator/fairlead_hub", "edge_agent/fairlead_edge", "messaging/fairlead_messaging",
    "ingest/fairlead_ingest", "cli/fairlead_cli",
)  # fmt: skip
PROGRAM = "#!/usr/local/bin/python3\nimport sys\nfrom fairlead_cli.main import main\nsys.exit(main())\n"
ENTRYPOINT = Path("charts/images/spark-entrypoint.sh")
"""What Spark's Kubernetes backend starts a container with."""
SHELL_TOOLS = ("bash", "dirname", "env", "chmod", "chown", "df", "du", "id", "ln", "ls", "readlink", "stat", "uname")
"""What Spark's launcher scripts and Hadoop's local filesystem call."""
JAVA_SCREEN = ("libawt_xawt.so", "libsplashscreen.so", "libfontmanager.so", "libjawt.so")
"""Parts of the desktop module that would bring X11 along; Spark wants its java.beans only."""
JAVA_MODULES = (
    "java.se", "jdk.unsupported", "jdk.crypto.ec", "jdk.security.auth", "jdk.security.jgss", "jdk.management",
    "jdk.zipfs", "jdk.naming.dns", "jdk.incubator.vector",
)  # fmt: skip
"""What Spark, Hadoop's client and Netty load; the compiler, desktop tools and debuggers stay out."""


class LayerError(Exception):
    """Something the user can act on; the text is the whole message."""


def python(root: Path) -> None:
    """The interpreter that runs this, without tests and tools, and what every container expects to find."""
    stdlib = Path(sysconfig.get_paths()["stdlib"])
    shutil.copytree(stdlib, root / PREFIX / "lib" / PYTHON, ignore=shutil.ignore_patterns(*STDLIB_LEFT_OUT))
    (root / SITE).mkdir()
    interpreter = root / PREFIX / "bin" / PYTHON
    interpreter.parent.mkdir(parents=True)
    shutil.copy2(Path(sys.executable).resolve(), interpreter)
    for name in ("python3", "python"):
        (interpreter.parent / name).symlink_to(PYTHON)
    for folder in ("etc", "proc", "sys", "dev", "run", "var/lib", "data"):
        (root / folder).mkdir(parents=True)
    (root / "tmp").mkdir(mode=0o1777)
    (root / "tmp").chmod(0o1777)
    (root / "etc/passwd").write_text(f"root:x:0:0::/:/bin/false\nfairlead:x:{USER}:{USER}::/tmp:/bin/false\n")
    (root / "etc/group").write_text(f"root:x:0:\nfairlead:x:{USER}:\n")
    (root / "etc/nsswitch.conf").write_text("passwd: files\ngroup: files\nhosts: files dns\n")
    authorities = Path("/etc/ssl/certs/ca-certificates.crt")
    if authorities.exists():
        (root / authorities.relative_to("/")).parent.mkdir(parents=True)
        shutil.copy2(authorities, root / authorities.relative_to("/"))
    compile_all(root)
    add_libraries(root)
    strip(root)


def packages(*extras: str) -> Callable[[Path], None]:
    """What the distribution brings with these extras, copied from the environment that the lock file made."""

    def fill(root: Path) -> None:
        for found in closure.closure(distribution.NAME, *extras):
            copy_distribution(found, root / SITE)
        strip(root / SITE)
        compile_all(root)
        add_libraries(root)

    return fill


def metadata_file(version: str) -> str:
    """Below site-packages: where a program finds which version of the distribution it is."""
    return f"{distribution.NAME.replace('-', '_')}-{version}.dist-info/METADATA"


def copy_distribution(found: Distribution, site: Path) -> None:
    """The importable files of one installed distribution; scripts and what images leave out stay behind."""
    for file in found.files or []:
        # Scripts and data outside site-packages are written as ../../../bin/x.
        if ".." in file.parts or not closure.belongs(str(file)):
            continue
        target = site / file
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(Path(str(found.locate_file(file))), target)


def code(root: Path) -> None:
    """Our own packages, and the programs `fairlead` and `kubectl-fairlead`."""
    for source in SOURCES:
        shutil.copytree(ROOT / source, root / SITE / Path(source).name, ignore=shutil.ignore_patterns("__pycache__"))
    metadata = root / SITE / metadata_file(distribution.version())
    metadata.parent.mkdir()
    metadata.write_text(installed(distribution.NAME).read_text("METADATA") or "")
    for name in ("fairlead", "kubectl-fairlead"):
        program = root / PREFIX / "bin" / name
        program.parent.mkdir(parents=True, exist_ok=True)
        program.write_text(PROGRAM)
        program.chmod(0o755)
    compile_all(root)


def java(root: Path) -> None:
    """A Java runtime cut to what Spark loads, and the shell its launcher is written in."""
    binary = shutil.which("java")
    if binary is None:
        raise LayerError("the ingest image needs Java 17; install openjdk-17-jdk-headless and try again")
    home = Path(os.environ.get("JAVA_HOME") or Path(binary).resolve().parents[1])
    target = root / "opt/java"
    target.parent.mkdir()
    if (home / "jmods").is_dir() and (home / "bin/jlink").exists():
        subprocess.run(
            [
                str(home / "bin/jlink"), "--add-modules", ",".join(JAVA_MODULES), "--strip-java-debug-attributes",
                "--no-header-files", "--no-man-pages", "--compress=2", "--output", str(target),
            ],
            check=True,
            stdin=subprocess.DEVNULL,
        )  # fmt: skip
    else:
        # Debian keeps the runtime's configuration below /etc, behind links.
        shutil.copytree(home, target, ignore=shutil.ignore_patterns("jmods", "man", "src.zip", "*.diz", "demo"))
    for screen in JAVA_SCREEN:
        (target / "lib" / screen).unlink(missing_ok=True)
    (root / "usr/bin").mkdir(parents=True)
    (root / "bin").symlink_to("usr/bin")
    for tool in SHELL_TOOLS:
        found = shutil.which(tool)
        if found is None:
            raise LayerError(f"the ingest image needs {tool}, which is not on the PATH")
        shutil.copy2(Path(found).resolve(), root / "usr/bin" / tool)
    add_libraries(root)


def kubernetes_backend(root: Path) -> None:
    """Above the layer of `ingest`: jars by which a driver asks an API server for executors, and what starts those."""
    spark = installed("pyspark")
    for file in spark.files or []:
        if any(fnmatchcase(str(file), jars) for jars in closure.KUBERNETES_BACKEND):
            target = root / SITE / file
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(Path(str(spark.locate_file(file))), target)
    script = root / "opt/entrypoint.sh"
    script.parent.mkdir()
    shutil.copy2(ROOT / ENTRYPOINT, script)
    script.chmod(0o755)
    (root / "usr/bin").mkdir(parents=True)
    (root / "usr/bin/sh").symlink_to("bash")


def strip(folder: Path) -> None:
    """Drop debug symbols (a tenth of some packages is left); does nothing where there is no `strip`.

    Libraries that a wheel brought along (`*.libs`) were edited after linking and do not survive it.
    """
    program = shutil.which("strip")
    extensions = [str(path) for path in native.binaries(folder) if ".libs/" not in str(path)]
    if program and extensions:
        subprocess.run([program, "--strip-debug", *extensions], check=True, stdin=subprocess.DEVNULL)


def compile_all(root: Path) -> None:
    """Byte code beside every module: containers have a read-only root, so it cannot be made later.

    Unchecked: the files of a layer do not change, and times are not part of it. In a new process: which texts byte
    code shares depends on what its compiler has in memory, and a layer must not depend on who made it.
    """
    subprocess.run(
        [
            sys.executable, "-I", "-m", "compileall", "-qq", "-j", "0", "-s", str(root), "-p", "/",
            "--invalidation-mode", "unchecked-hash", str(root),
        ],
        # 1 says that a file of some package is not for this Python, which is not needed then.
        check=False, stdin=subprocess.DEVNULL, env={**os.environ, "PYTHONHASHSEED": "0"},
    )  # fmt: skip


def add_libraries(root: Path) -> None:
    """Copy every system library that the binaries of a layer need to where the dynamic linker searches first."""
    libraries = sorted(native.needed([*native.binaries(root), *_interpreter(root)]))
    system = next((path.parent for path in libraries if path.name.startswith("libc.so")), None)
    if system is None:
        return
    for library in libraries:
        if library.is_relative_to(root):
            continue
        # The loader is named by absolute path in every program; the interpreter's own library lies outside the
        # linker's folders on the machine that built it, and must not here.
        own = library.name.startswith("ld-") or library.parent in (system, Path("/usr") / system.relative_to("/"))
        target = root / (library if own else system / library.name).relative_to("/")
        if not target.exists():
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(library.resolve(), target)


def _interpreter(root: Path) -> list[Path]:
    # The copy lost the neighbours by which it finds its own library; the original has them.
    return [Path(sys.executable).resolve()] if (root / PREFIX / "bin" / PYTHON).exists() else []
