"""Builds the documentation as a site, `make docs`: every page, every link checked, nothing fetched when it is read.

    docs/**.md and the pages at the top of the repository ─stage─▶ build/docs ─mkdocs─▶ build/site

A link to a file of the repository that is no page of the site is shown as its path; one that leads nowhere ends the
build with the page, the line and the link.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import yaml

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
TOP = {
    "README.md": "readme.md",
    "ARCHITECTURE.md": "architecture.md",
    "CONTRIBUTING.md": "contributing.md",
    "CHANGELOG.md": "changelog.md",
}
"""Pages at the top of the repository, and what they are called in the site."""
# In the order in which a reader meets them.
SECTIONS = {
    "tutorial": "Tutorial",
    "howto": "How to",
    "reference": "Reference",
    "runbooks": "Runbooks",
    "explanation": "Explanation",
    "decisions": "Decisions",
}
# The first two digits of a decision's number.
AREAS = {
    "00": "Tests, and the frames of the link",
    "01": "Messaging",
    "02": "Routes",
    "03": "Ingest",
    "04": "The hub",
    "05": "The edge agent",
    "06": "Messages at the edge",
    "07": "Installing",
    "08": "Documents, settings and messages to people",
    "09": "Security at the border",
}
DECISIONS = DOCS / "decisions"
_LINK = re.compile(r"(?<!!)\[([^\]]*)\]\(([^)\s]+)\)")
_HEADING = re.compile(r"^#{1,6} +(.+?) *$")
_FENCE = re.compile(r"^\s*(```|~~~)")


class BadLinkError(Exception):
    """A link leads nowhere."""


def slug(heading: str) -> str:
    """The anchor of a heading, as mkdocs and the hosts of repositories make it."""
    plain = re.sub(r"[`*_]|\[([^\]]*)\]\([^)]*\)", lambda found: found[1] or "", heading).lower()
    return re.sub(r"[-\s]+", "-", re.sub(r"[^\w\s-]", "", plain)).strip("-")


def outside_fences(text: str) -> Iterator[tuple[int, str, bool]]:
    """Each line with its number, and whether it is prose."""
    fenced = False
    for number, line in enumerate(text.splitlines(keepends=True), 1):
        if _FENCE.match(line):
            fenced = not fenced
            yield number, line, False
        else:
            yield number, line, not fenced


def anchors(page: Path) -> set[str]:
    """What a link may name after `#` in this page."""
    lines = (line for _, line, is_prose in outside_fences(page.read_text()) if is_prose)
    return {slug(found[1]) for line in lines if (found := _HEADING.match(line.rstrip("\n")))}


def title(page: Path) -> str:
    """Its first heading."""
    return next(line for line in page.read_text().splitlines() if line.startswith("# ")).removeprefix("# ").strip()


def pages() -> dict[Path, str]:
    """Every page of the repository, with its place in the site."""
    found = {page: str(page.relative_to(DOCS)) for page in sorted(DOCS.rglob("*.md"))}
    return found | {ROOT / name: place for name, place in TOP.items()}


def bad_links() -> list[str]:
    """Every link of every page that leads nowhere, as `page:line: link: reason`."""
    known = {page: anchors(page) for page in pages()}
    found = []
    for page in known:
        for number, line, is_prose in outside_fences(page.read_text()):
            for _, link in _LINK.findall(re.sub(r"`[^`]*`", "", line)) if is_prose else ():
                if reason := _wrong(page, link, known):
                    found.append(f"{page.relative_to(ROOT)}:{number}: {link}: {reason}")
    return found


def _wrong(page: Path, link: str, known: dict[Path, set[str]]) -> str:
    if link.startswith(("https://", "http://", "mailto:")):
        return ""
    path, _, anchor = link.partition("#")
    target = (page.parent / path).resolve() if path else page
    if not target.is_relative_to(ROOT) or not target.exists():
        return "no such file"
    if anchor and target.suffix == ".md" and anchor not in known.get(target, anchors(target)):
        return "no such heading"
    return ""


def decisions() -> list[Path]:
    """Every decision page."""
    return [page for page in sorted(DECISIONS.glob("*.md")) if page.name[:4].isdigit()]


def decisions_index() -> str:
    """The index of decisions; `make docs` writes it, a test holds it against the pages."""
    out = [
        "# Decisions\n",
        "\nWhat was weighed, what was chosen and what was given up, one page each. Written by `make docs`.\n",
    ]
    for area, name in AREAS.items():
        inside = [page for page in decisions() if page.name[:2] == area]
        out.append(f"\n## {name}\n\n" + "".join(f"- [{title(page)}]({page.name})\n" for page in inside))
    return "".join(out)


def stage(target: Path) -> None:
    """Write every page with its links as the site wants them."""
    places = pages()
    for page, place in places.items():
        out = target / place
        out.parent.mkdir(parents=True, exist_ok=True)
        lines = [_relinked(page, out, target, line, places) if is_prose else line
                 for _, line, is_prose in outside_fences(page.read_text())]  # fmt: skip
        out.write_text("".join(lines))


def _relinked(page: Path, out: Path, target: Path, line: str, places: dict[Path, str]) -> str:
    def one(found: re.Match[str]) -> str:
        text, link = found[1], found[2]
        path, mark, anchor = link.partition("#")
        if not path or "://" in link or link.startswith("mailto:"):
            return found[0]
        goal = (page.parent / path).resolve()
        if goal in places:
            way = Path(*[".."] * len(out.parent.relative_to(target).parts), places[goal])
            return f"[{text}]({way}{mark}{anchor})"
        shown = str(goal.relative_to(ROOT))
        return f"{text}" if text.strip("`") == shown else f"{text} (`{shown}`)"

    return _LINK.sub(one, line)


def navigation() -> list[dict[str, object]]:
    """What the site shows at the side: the index, then the sections."""
    nav: list[dict[str, object]] = [{"Start": "index.md"}, {"What it is": TOP["README.md"]}]
    for folder, name in SECTIONS.items():
        inside = [page for page in sorted((DOCS / folder).glob("*.md")) if page.name != "index.md"]
        entries: list[object] = [{title(page): str(page.relative_to(DOCS))} for page in inside]
        nav.append({name: ([f"{folder}/index.md"] if (DOCS / folder / "index.md").exists() else []) + entries})
    nav += [{"Architecture": "architecture.md"}, {"Contributing": "contributing.md"}, {"Changes": "changelog.md"}]
    return nav


def build(out: Path) -> None:
    """Check, stage and build.  Raises ``BadLinkError``; mkdocs says what it dislikes itself."""
    (DECISIONS / "index.md").write_text(decisions_index())
    if wrong := bad_links():
        raise BadLinkError("\n".join(wrong))
    work = out / "docs"
    shutil.rmtree(work, ignore_errors=True)
    stage(work)
    settings = {
        "site_name": "Fairlead",
        "docs_dir": str(work),
        "site_dir": str(out / "site"),
        "use_directory_urls": False,  # so that it can be read from the disk
        # Everything a page needs comes with it: no font, no script from elsewhere.
        "theme": {"name": "material", "font": False, "features": ["navigation.indexes", "content.code.copy"]},
        "plugins": ["search"],
        "markdown_extensions": ["tables", "toc", "pymdownx.superfences", "pymdownx.highlight"],
        "validation": {"links": {"not_found": "warn", "anchors": "ignore", "unrecognized_links": "ignore"}},
        "nav": navigation(),
    }
    config = out / "mkdocs.yml"
    config.write_text(yaml.safe_dump(settings, sort_keys=False))
    command = [sys.executable, "-m", "mkdocs", "build", "--quiet", "--strict", "-f", str(config)]
    # Its theme announces other projects on standard error.
    subprocess.run(command, check=True, env={**os.environ, "NO_MKDOCS_2_WARNING": "1"})


def main() -> int:
    """`python -m docs.site.build`; exit 1 with every bad link."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--out", type=Path, default=ROOT / "build", help="the folder for the site (default: build)")
    out: Path = parser.parse_args().out.resolve()
    out.mkdir(parents=True, exist_ok=True)
    try:
        build(out)
    except BadLinkError as error:
        print(f"make docs: these links lead nowhere:\n{error}", file=sys.stderr)
        return 1
    except subprocess.CalledProcessError as error:
        return error.returncode
    print(f"make docs: {out / 'site' / 'index.html'}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
