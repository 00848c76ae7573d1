"""kill -9 at a chosen line of another process: after a function returned and before its caller continues.

    environ = kill_after(folder, ["some.module"], "function", "args[0] == 'this one'")  →  start a program with it

A `sitecustomize` in front of the path wraps the function in every Python the program starts. The first call for which
the condition holds ends the JVM above that Python, and the Python itself; then `killed(folder)` is true.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

HOOK = """
import functools, importlib.util, os, signal, sys

MODULES, ATTRIBUTE, CONDITION, FLAG = {parameters!r}

def wrapped(function):
    @functools.wraps(function)
    def and_die(*args, **keywords):
        answer = function(*args, **keywords)
        if not os.path.exists(FLAG) and eval(CONDITION):
            open(FLAG, "w").close()
            pid = os.getppid()
            while b"SparkSubmit" not in open(f"/proc/{{pid}}/cmdline", "rb").read():
                pid = int(open(f"/proc/{{pid}}/stat").read().rpartition(")")[2].split()[1])
            os.kill(pid, signal.SIGKILL)
            os.kill(os.getpid(), signal.SIGKILL)
        return answer
    return and_die

class After:
    def find_spec(self, name, path, target=None):
        if name not in MODULES:
            return None
        sys.meta_path.remove(self)
        try:
            spec = importlib.util.find_spec(name)
        finally:
            sys.meta_path.insert(0, self)
        load = spec.loader.exec_module
        def exec_module(module):
            load(module)
            *owners, last = ATTRIBUTE.split(".")
            owner = functools.reduce(getattr, owners, module)
            setattr(owner, last, wrapped(getattr(owner, last)))
        spec.loader.exec_module = exec_module
        return spec

sys.meta_path.insert(0, After())
"""


def kill_after(folder: Path, modules: Sequence[str], attribute: str, condition: str) -> dict[str, str]:
    """The environment of a program that is killed once, after `attribute` of one of `modules` returned.

    `condition` is an expression over the call's `args`, `keywords` and `answer`.
    """
    place = folder / "kill_after"
    place.mkdir()
    parameters = (tuple(modules), attribute, condition, str(folder / "killed"))
    (place / "sitecustomize.py").write_text(HOOK.format(parameters=parameters))
    path = os.pathsep.join([str(place), *filter(None, [os.environ.get("PYTHONPATH")])])
    return {**os.environ, "PYTHONPATH": path}


def killed(folder: Path) -> bool:
    """Whether the program was killed."""
    return (folder / "killed").exists()
