"""Checks of a module of SQL statements."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

EDGE = Path(__file__).resolve().parents[2] / "edge_agent" / "fairlead_edge"


def _names(module: ModuleType) -> Iterator[tuple[str, str]]:
    """Each public name and the docstring below it."""
    body = ast.parse(Path(str(module.__file__)).read_text()).body
    for node, following in zip(body, [*body[1:], ast.Pass()], strict=True):
        if isinstance(node, ast.FunctionDef):
            yield node.name, ast.get_docstring(node) or ""
            continue
        match node:
            case ast.AnnAssign(target=ast.Name(id=name)) | ast.Assign(targets=[ast.Name(id=name)]):
                match following:
                    case ast.Expr(value=ast.Constant(value=str(text))):
                        yield name, text
                    case _:
                        yield name, ""
            case _:
                pass


def statements_of(module: ModuleType) -> list[str]:
    """The text of every public statement that is a constant."""
    found: list[str] = []
    for name, _ in _names(module):
        value = getattr(module, name)
        texts = [value] if isinstance(value, str) else list(value) if isinstance(value, tuple) else []
        if not name.startswith("_"):
            found += [text for text in texts if " " in text]
    return found


def assert_each_is_explained(module: ModuleType) -> None:
    """Check that each public name has a docstring."""
    missing = [name for name, text in _names(module) if not name.startswith("_") and not text]
    assert not missing, f"say below each what it is for: {missing}"


def assert_each_is_used(module: ModuleType) -> None:
    """Check that each is used somewhere in the edge, as an attribute of its module."""
    used = {
        node.attr
        for path in EDGE.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Attribute)
    }
    here = Path(str(module.__file__)).read_text()
    unused = [
        name for name, _ in _names(module)
        if not name.startswith("_") and name not in used and here.count(name) < 2
    ]  # fmt: skip
    assert not unused, f"delete: {unused}"
