"""The distribution that these packages are installed from.

Packages are imported as ``fairlead_…``, and the command is ``fairlead``. On the public package index that name is
another project's, so the distribution has one of its own, and everything that says or asks it takes it from here.
"""

from __future__ import annotations

from typing import Final

NAME: Final = "fairlead-kubernetes"


def version() -> str:
    """Of the distribution that is installed; all programs of one are of one version."""
    # Not at the top: the command line starts without it.
    from importlib.metadata import version

    return version(NAME)


def with_extra(extra: str) -> str:
    """As a requirement: ``fairlead-kubernetes[hub]``."""
    return f"{NAME}[{extra}]"


def install(extra: str) -> str:
    """The command that adds what an extra brings to the distribution that is installed."""
    return f"pip install '{with_extra(extra)}'"
