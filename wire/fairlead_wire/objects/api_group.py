"""The API group of Fairlead's custom resources, as the files in ``crds`` define it."""

from __future__ import annotations

from typing import Final

GROUP: Final = "fairlead.dev"
VERSION: Final = "v1alpha1"
API_VERSION: Final = f"{GROUP}/{VERSION}"
ROOT: Final = f"apis/{API_VERSION}"
"""Path of its resources at an API server, without a slash at either end."""
