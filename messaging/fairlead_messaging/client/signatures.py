"""Methods made from functions keep the function's name, text and arguments, so that editors and ``help`` show them."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any, TypeVar

Method = TypeVar("Method", bound=Callable[..., Any])


def as_method(method: Method, build: Callable[..., object]) -> Method:
    """``method`` looking like ``build`` with ``self`` before its arguments; what it returns is not ``build``'s."""
    functools.update_wrapper(method, build)
    signature = inspect.signature(build)
    itself = inspect.Parameter("self", inspect.Parameter.POSITIONAL_OR_KEYWORD)
    method.__signature__ = signature.replace(  # type: ignore[attr-defined]
        parameters=[itself, *signature.parameters.values()], return_annotation=inspect.Signature.empty
    )
    return method
