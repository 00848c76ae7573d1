"""The distribution that these packages are installed from.

The packages are ``fairlead_…`` and the command is ``fairlead``, but on the public package index that name belongs to
another project.  The name of the distribution is therefore a different one, defined only here.
"""

from __future__ import annotations

from typing import Final

NAME: Final = "fairlead-kubernetes"


def version() -> str:
    """The version of the installed distribution, shared by all its programs."""
    # Imported here because the command line starts faster without it.
    from importlib.metadata import version

    return version(NAME)


def with_extra(extra: str) -> str:
    """A requirement with an extra, such as ``fairlead-kubernetes[hub]``."""
    return f"{NAME}[{extra}]"


def install(extra: str) -> str:
    """The command that installs the dependencies of an extra."""
    return f"pip install '{with_extra(extra)}'"
