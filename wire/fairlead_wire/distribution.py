"""The distribution that these packages are installed from.

Packages are imported as ``fairlead_…``, and the command is ``fairlead``. On the public package index that name
belongs to another project, so the distribution has a name of its own, which is defined here only.
"""

from __future__ import annotations

from typing import Final

NAME: Final = "fairlead-kubernetes"


def version() -> str:
    """Version of the installed distribution; all its programs have the same one."""
    # Not at the top: the command line starts without it.
    from importlib.metadata import version

    return version(NAME)


def with_extra(extra: str) -> str:
    """As a requirement: ``fairlead-kubernetes[hub]``."""
    return f"{NAME}[{extra}]"


def install(extra: str) -> str:
    """The command that adds what an extra brings to the distribution that is installed."""
    return f"pip install '{with_extra(extra)}'"
