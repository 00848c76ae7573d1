"""The house rules, as tests: pure roots, SQL in catalogues, commands and docs that agree, no leftovers.

Every failure names the file, the line and the remedy.
"""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
from tests.support.pages import blocks, pages

from fairlead_cli.main import build

ROOT = Path(__file__).resolve().parents[1]

# room → package folder
ROOMS = {
    "wire": ROOT / "wire" / "fairlead_wire",
    "hub": ROOT / "operator" / "fairlead_hub",
    "edge": ROOT / "edge_agent" / "fairlead_edge",
    "messaging": ROOT / "messaging" / "fairlead_messaging",
    "ingest": ROOT / "ingest" / "fairlead_ingest",
    "cli": ROOT / "cli" / "fairlead_cli",
}

IMPURE_MODULES = frozenset(
    """aiohttp apsw asyncio concurrent deltalake fcntl http kopf kubernetes multiprocessing prometheus_client pyspark
    random requests rocksdict secrets select selectors shutil signal socket sqlite3 ssl subprocess tempfile
    time urllib uvloop websockets""".split()  # noqa: SIM905
)
IMPURE_CALLS = frozenset(
    """open input print os.environ.get os.getenv os.urandom uuid.uuid1 uuid.uuid4 datetime.now datetime.utcnow
    datetime.today datetime.datetime.now datetime.datetime.utcnow date.today""".split()  # noqa: SIM905
)
IMPURE_METHODS = frozenset(["read_text", "write_text", "read_bytes", "write_bytes"])
# Parsing the text of an address touches no network; a Random that was handed in is an argument like any other.
ALLOWED_IMPORTS = ("urllib.parse", "http.HTTPStatus", "random.Random")
# Columns are the vocabulary of transforms.
PYSPARK_MAY = frozenset(
    """column_check.py contract.py contract_file.py ddl.py fitting.py rules.py transforms.py""".split()  # noqa: SIM905
)
REMEDY = "take it as an argument, or move this to io/"


def impurities(path: Path) -> Iterator[str]:
    """What a pure module must not do, as `line: what`; imports for type checking alone are free."""
    tree = ast.parse(path.read_text(), filename=str(path))
    free = {
        id(inner)
        for node in ast.walk(tree)
        if isinstance(node, ast.If) and ast.unparse(node.test).endswith("TYPE_CHECKING")
        for inner in ast.walk(node)
    }
    for node in ast.walk(tree):
        if id(node) in free:
            continue
        match node:
            case ast.Import(names=names):
                imported = [each.name for each in names]
            case ast.ImportFrom(module=str(module), level=0, names=names):
                imported = [f"{module}.{each.name}" for each in names]
            case ast.Call(func=function):
                called = ast.unparse(function)
                method = function.attr if isinstance(function, ast.Attribute) else ""
                if called in IMPURE_CALLS or method in IMPURE_METHODS:
                    yield f"{node.lineno}: calls {called}()"
                continue
            case ast.Subscript(value=value) if ast.unparse(value) == "os.environ":
                yield f"{node.lineno}: reads os.environ"
                continue
            case _:
                continue
        for name in imported:
            top = name.split(".")[0]
            if top not in IMPURE_MODULES or any(name.startswith(allowed) for allowed in ALLOWED_IMPORTS):
                continue
            if top == "pyspark" and path.name in PYSPARK_MAY:
                continue
            yield f"{node.lineno}: imports {name}"


def pure_modules() -> list[Path]:
    """Everything outside io/ but app.py; the command line is all rim."""
    return sorted(
        path
        for room, package in ROOMS.items()
        if room != "cli"
        for path in package.rglob("*.py")
        if "io" not in path.relative_to(package).parts and path.name != "app.py"
    )


def tracked() -> list[Path]:
    """Every text file of the project that is, or is about to be, committed."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT, capture_output=True, text=True,
    )  # fmt: skip
    if listed.returncode != 0:
        pytest.skip("not a git checkout: which files belong to the project is unknown")
    return [ROOT / name for name in listed.stdout.split("\0") if name and (ROOT / name).is_file()]


def documents() -> str:
    """README and docs in one text, without what is made from the commands themselves."""
    pages = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
    return "\n".join(page.read_text() for page in pages if page.exists() and page.name != "cli-commands.md")


def commands(group: click.Command, path: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    """The path of every command below `group`, hidden ones aside."""
    if not isinstance(group, click.Group):
        yield path
        return
    context = click.Context(group, info_name=path[-1])
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        if command is not None and not command.hidden:
            yield from commands(command, (*path, name))


@pytest.mark.slow
def test_package_roots_are_pure() -> None:
    """Root thinks, io acts, app joins: no clock, disk, network, randomness or environment outside io/."""
    found = [f"{path.relative_to(ROOT)}:{what}; {REMEDY}" for path in pure_modules() for what in impurities(path)]
    assert not found, "\n" + "\n".join(found)


def test_the_purity_rule_sees_what_it_forbids(tmp_path: Path) -> None:
    """A rule that finds nothing proves nothing."""
    sample = tmp_path / "sample.py"
    sample.write_text(
        "import time\nfrom asyncio import Queue\nfrom typing import TYPE_CHECKING\n"
        "if TYPE_CHECKING:\n    import socket\nfrom urllib.parse import quote\n"
        "x = open('a')\ny = os.environ['A']\nz = path.read_text()\n"
    )
    assert sorted(impurities(sample)) == [
        "1: imports time",
        "2: imports asyncio.Queue",
        "7: calls open()",
        "8: reads os.environ",
        "9: calls path.read_text()",
    ]


@pytest.mark.process
def test_operator_is_still_the_standard_library() -> None:
    """The hub lives in operator/, which must never shadow Python's own module, from the root or from inside."""
    for folder in (ROOT, ROOT / "tests"):
        asked = subprocess.run(
            [sys.executable, "-c", "import operator; print(operator.itemgetter(0)(['ok']), operator.__file__)"],
            cwd=folder, env={"PYTHONPATH": str(ROOT)}, capture_output=True, text=True,
        )  # fmt: skip
        assert asked.stdout.startswith("ok "), asked.stderr
        assert str(ROOT) not in asked.stdout
    assert not (ROOT / "operator" / "__init__.py").exists(), "remove operator/__init__.py: it shadows Python's operator"
    assert not (ROOT / "tests" / "operator").exists(), "move tests/operator to tests/hub: collection breaks otherwise"


# The edge's SQL stands in catalogues: statements by name, and the tables themselves.
SQL = re.compile(
    r"^\s*(?:SELECT|INSERT|UPDATE|DELETE|CREATE|ALTER|DROP|PRAGMA|BEGIN|COMMIT|ROLLBACK|SAVEPOINT|RELEASE|EXPLAIN|VACUUM)\b"
    r"|\b(?:FROM|INTO|SET|WHERE|ORDER BY)\s+\w|\b(?:WITHOUT ROWID|RETURNING)\b"
)
SQL_MODULES = frozenset(["statements.py", "schema.py"])


def sql_strings(path: Path) -> Iterator[str]:
    """Strings that look like SQL, as `line: text`; docstrings and the texts of errors are prose."""
    tree = ast.parse(path.read_text(), filename=str(path))
    prose = {
        id(inner)
        for node in ast.walk(tree)
        if (isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)) or isinstance(node, ast.Raise)
        for inner in ast.walk(node)
    }
    for node in ast.walk(tree):
        match node:
            case ast.Constant(value=str(text)) if id(node) not in prose and SQL.search(text):
                yield f"{node.lineno}: {text.strip()[:60]}"
            case _:
                pass


@pytest.mark.slow
def test_sql_stands_in_catalogues() -> None:
    """Each statement of the edge has a name and a reason, in one module for each store."""
    edge = ROOT / "edge_agent" / "fairlead_edge" / "io"
    found = [
        f"{path.relative_to(ROOT)}:{what}"
        for path in sorted(edge.rglob("*.py"))
        if path.name not in SQL_MODULES
        for what in sql_strings(path)
    ]
    assert not found, "give these a name in statements.py:\n" + "\n".join(found)


def test_the_sql_rule_sees_what_it_forbids(tmp_path: Path) -> None:
    """A rule that finds nothing proves nothing."""
    sample = tmp_path / "sample.py"
    sample.write_text(
        '"""SELECT me."""\nx = f"SELECT {a} FROM t"\ny = "DELETE FROM t"\nz = "PRAGMA page_size"\n'
        'w = " WHERE a = ?"\nv = "update the row"\nraise E("SELECT it FROM there")\n'
    )
    assert sorted(each.split(":")[0] for each in sql_strings(sample)) == ["2", "2", "3", "4", "5"]


def test_every_command_is_documented() -> None:
    """docs/reference/cli.md names every command as one types it."""
    page = ROOT / "docs" / "reference" / "cli.md"
    text = page.read_text() if page.exists() else ""
    missing = [" ".join(path) for path in commands(build(), ("fairlead",)) if " ".join(path) not in text]
    assert not missing, "add to docs/reference/cli.md:\n" + "\n".join(missing)


def test_every_make_target_is_documented() -> None:
    """README, CONTRIBUTING or docs say what each daily word does."""
    targets = re.findall(r"^([a-z0-9-]+):.*##", (ROOT / "Makefile").read_text(), re.MULTILINE)
    assert len(targets) > 10
    text = documents()
    missing = [target for target in targets if not re.search(rf"make {target}\b", text)]
    assert not missing, "mention in README.md, CONTRIBUTING.md or docs/:\n" + "\n".join(
        f"make {each}" for each in missing
    )


def test_the_charts_definitions_are_the_projects_own() -> None:
    """Files, not links: helm tells of every link it follows, five lines before each of its answers."""
    ours = {path.name: path.read_bytes() for path in (ROOT / "crds").glob("*.yaml")}
    held = {path.name: path for path in (ROOT / "charts" / "fairlead" / "crds").glob("*.yaml")}
    assert {name: path.read_bytes() for name, path in held.items()} == ours, "cp crds/*.yaml charts/fairlead/crds/"
    assert not any(path.is_symlink() for path in held.values()), "make files of the links in charts/fairlead/crds/"


def test_every_code_block_says_what_it_is() -> None:
    """So that tests/stories/test_pages.py knows what to do with it; the message names the block."""
    assert sum(1 for page in pages() for _ in blocks(page, page.read_text())) > 40


# Written in two halves, so that this file does not find itself.
FORBIDDEN = {
    r"\bTO" r"DO\b": "do it, or write an issue",
    r"\bFIX" r"ME\b": "fix it, or write an issue",
    r"\bNotImplemented" r"Error\b": "build it, or leave the name out",
    r"(?<![\w.-])/(?:work|root)" r"/\w": "name no folder of one machine",
    r"\b(?:proxy\.golang|pypi|files\.python" r"hosted)\.org\b": "name no registry host: mirrors are the user's choice",
}
# Content hashes, in which any four letters may meet.
HASHES = frozenset(["go.sum", "dev.lock"])


@pytest.mark.process
def test_no_leftovers() -> None:
    """What is committed is finished, and knows nothing of the machine it was written on."""
    found: list[str] = []
    for path in tracked():
        if path.name in HASHES:
            continue
        try:
            text = path.read_text()
        except UnicodeDecodeError:
            continue
        for pattern, remedy in FORBIDDEN.items():
            for match in re.finditer(pattern, text):
                line = text.count("\n", 0, match.start()) + 1
                found.append(f"{path.relative_to(ROOT)}:{line}: {match.group()}; {remedy}")
    assert not found, "\n" + "\n".join(found)


@pytest.mark.process
def test_no_file_keeps_the_marks_of_a_conflict() -> None:
    """A merge that was committed half done."""
    marks = re.compile(r"^(?:<{7}|>{7}) \S", re.MULTILINE)
    found = [
        path for path in tracked() if path.suffix in (".md", ".py", ".yaml", ".toml") and marks.search(path.read_text())
    ]
    assert not found, [str(path.relative_to(ROOT)) for path in found]
