"""Builds the documentation as a site, `make docs`: every link checked, nothing fetched by a reader.

    programs ─docs.reference─▶ generated pages ─┐
    docs/** and the pages at the top ───────────┴─stage─▶ build/docs ─zensical─▶ build/site

A link to a file of the repository that is no page of the site is shown as its path; one that leads nowhere ends the
build with the page, the line and the link.  The site is read from a disk as well as from a server.
"""

from __future__ import annotations

import argparse
import re
import shutil
import subprocess
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

import yaml
from docs.reference import generated
from docs.site import figures, picture

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
FIRST = ("quickstart.md", "first-hour.md", "the-demo.md", "install.md", "cli.md", "crds.md", "guarantees.md")
"""Pages that stand first in their section, in this order; the others by title."""
COPIED = (".svg", ".png", ".json")
"""What pages show or offer beside text."""
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
}
DECISIONS = DOCS / "decisions"
WORKER = Path(__file__).with_name("worker-from-disk.js")
MARKER = ".fairlead-site"
"""Of folders that the user names, only one with this file in it is emptied."""
FOREIGN_WORKER = "https://unpkg.com/iframe-worker/shim"
"""What the theme's pages fetch when they are read from a disk, so that search works; ours does the same."""
_LINK = re.compile(r"(!?)\[([^\]]*)\]\(([^)\s]+)\)")
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


def links(known: Iterable[Path]) -> Iterator[tuple[Path, int, str]]:
    """Every link and picture of these pages, with its line; those in code aside."""
    for page in known:
        for number, line, is_prose in outside_fences(page.read_text()):
            for _, _, link in _LINK.findall(re.sub(r"`[^`]*`", "", line)) if is_prose else ():
                yield page, number, link


def bad_links() -> list[str]:
    """Every link of every page that leads nowhere, as `page:line: link: reason`."""
    known = {page: anchors(page) for page in pages()}
    return [
        f"{page.relative_to(ROOT)}:{number}: {link}: {reason}"
        for page, number, link in links(known)
        if (reason := _wrong(page, link, known))
    ]


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
        "\nAlternatives considered, choice and costs, one page for each subject. Generated by `make docs`.\n",
    ]
    for area, name in AREAS.items():
        inside = [page for page in decisions() if page.name[:2] == area]
        out.append(f"\n## {name}\n\n" + "".join(f"- [{title(page)}]({page.name})\n" for page in inside))
    return "".join(out)


def files() -> dict[Path, str]:
    """What is copied as it stands, with its place in the site."""
    return {
        path: str(path.relative_to(DOCS))
        for path in sorted(DOCS.rglob("*"))
        if path.suffix in COPIED and path.parent != DOCS / "site"
    }


def stage(target: Path) -> None:
    """Write every page with its links as the site wants them, and copy what they show."""
    for path, place in files().items():
        (target / place).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, target / place)
    places = pages()
    for page, place in places.items():
        out = target / place
        out.parent.mkdir(parents=True, exist_ok=True)
        lines = [_relinked(page, out, target, line, places) if is_prose else line
                 for _, line, is_prose in outside_fences(page.read_text())]  # fmt: skip
        out.write_text("".join(lines))


def _relinked(page: Path, out: Path, target: Path, line: str, places: dict[Path, str]) -> str:
    def one(found: re.Match[str]) -> str:
        text, link = found[2], found[3]
        path, mark, anchor = link.partition("#")
        if found[1] or not path or "://" in link or link.startswith("mailto:"):
            return found[0]
        goal = (page.parent / path).resolve()
        if goal.suffix in COPIED and goal.is_relative_to(DOCS):
            return found[0]
        if goal in places:
            way = Path(*[".."] * len(out.parent.relative_to(target).parts), places[goal])
            return f"[{text}]({way}{mark}{anchor})"
        shown = str(goal.relative_to(ROOT))
        # A test is found by its name; beside its path it would fill the cell of a table.
        return text if text.strip("`") == shown or text.startswith("`test_") else f"{text} (`{shown}`)"

    return _LINK.sub(one, line)


def sections() -> dict[str, str]:
    """Folders of pages and what they are called; one that is not listed above comes last."""
    others = sorted({page.parent.name for page in DOCS.rglob("*.md")} - {DOCS.name, *SECTIONS})
    return SECTIONS | {folder: folder.capitalize() for folder in others}


def _order(page: Path) -> tuple[int, str]:
    return (FIRST.index(page.name) if page.name in FIRST else len(FIRST), title(page).lower())


def navigation() -> list[dict[str, object]]:
    """What the site shows at the side: the start page, then the sections."""
    nav: list[dict[str, object]] = [{"Start": "index.md"}, {"What it is": TOP["README.md"]}]
    for folder, name in sections().items():
        inside = [page for page in (DOCS / folder).glob("*.md") if page.name != "index.md"]
        inside.sort(key=_order if folder != "decisions" else None)
        entries: list[object] = [{title(page): str(page.relative_to(DOCS))} for page in inside]
        nav.append({name: ([f"{folder}/index.md"] if (DOCS / folder / "index.md").exists() else []) + entries})
    nav += [{"Architecture": "architecture.md"}, {"Contributing": "contributing.md"}, {"Changes": "changelog.md"}]
    return nav


def _scheme(media: str, scheme: str, icon: str, following: str) -> dict[str, object]:
    return {
        "media": media,
        "scheme": scheme,
        "toggle": {"icon": f"lucide/{icon}", "name": f"Switch to {following}"},
    }


def settings(work: Path, site: Path) -> dict[str, object]:
    """What zensical reads.  Everything a page needs comes with it: no font, no script from elsewhere."""
    return {
        "site_name": "Fairlead",
        "site_description": "Keeps a Kubernetes cluster and its edge nodes in step over bad links.",
        "docs_dir": work.name,
        "site_dir": site.name,
        "use_directory_urls": False,  # so that it can be read from the disk
        "theme": {
            "font": False,
            "palette": [
                _scheme("(prefers-color-scheme)", "default", "sun-moon", "light colours"),
                _scheme("(prefers-color-scheme: light)", "default", "sun", "dark colours"),
                _scheme("(prefers-color-scheme: dark)", "slate", "moon", "the system's colours"),
            ],
            "features": ["navigation.indexes", "navigation.prune", "navigation.footer", "navigation.top",
                         "content.code.copy", "search.highlight", "toc.follow"],
        },
        "extra": {"generator": False},
        "plugins": ["search", "offline"],
        "markdown_extensions": [
            "tables", {"toc": {"permalink": True}}, "pymdownx.superfences", "pymdownx.highlight", "attr_list"
        ],
        "nav": navigation(),
    }  # fmt: skip


def generate() -> None:
    """Write the picture, the index of decisions and the generated pages of the reference."""
    picture.PAGE.write_text(picture.draw())
    generated.write()
    (DECISIONS / "index.md").write_text(decisions_index())


def build(out: Path) -> None:
    """Check, stage and build.  Raises ``BadLinkError``; zensical says what it dislikes itself."""
    if wrong := bad_links():
        raise BadLinkError("\n".join(wrong))
    work, site = out / "docs", out / "site"
    for folder in (work, site, out / ".cache"):
        shutil.rmtree(folder, ignore_errors=True)
    stage(work)
    config = out / "mkdocs.yml"
    config.write_text(yaml.safe_dump(settings(work, site), sort_keys=False))
    command = [sys.executable, "-m", "zensical", "build", "--strict", "--config-file", str(config)]
    done = subprocess.run(command, cwd=out, stdin=subprocess.DEVNULL, capture_output=True, text=True)
    if done.returncode:
        print(done.stdout, done.stderr, sep="\n", file=sys.stderr)
        raise subprocess.CalledProcessError(1, command)
    _keep_at_home(site)


def _keep_at_home(site: Path) -> None:
    """Replace the one script that a page would fetch from elsewhere."""
    place = Path("assets", "javascripts", WORKER.name)
    shutil.copyfile(WORKER, site / place)
    for page in site.rglob("*.html"):
        way = Path(*[".."] * len(page.parent.relative_to(site).parts), place)
        page.write_text(page.read_text().replace(FOREIGN_WORKER, str(way)))


def main() -> int:
    """`python -m docs.site.build`; exit 1 with every bad link."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--out", type=Path, default=ROOT / "build", help="the folder for the site (default: build)")
    parser.add_argument("--as-committed", action="store_true", help="generate nothing: build the pages as they are")
    asked = parser.parse_args()
    out: Path = asked.out.resolve()
    ours = out == ROOT / "build" or (out / MARKER).exists()
    if not ours and any((out / name).exists() for name in ("docs", "site")):
        print(f"make docs: {out} has a docs or site that is not from here; name another --out", file=sys.stderr)
        return 1
    out.mkdir(parents=True, exist_ok=True)
    (out / MARKER).touch()
    if not asked.as_committed:
        generate()
    try:
        build(out)
    except BadLinkError as error:
        print(f"make docs: these links lead nowhere:\n{error}", file=sys.stderr)
        return 1
    except subprocess.CalledProcessError as error:
        return error.returncode
    print(figures.text(list(pages()), [link for _, _, link in links(pages())]))
    print(f"make docs: {out / 'site' / 'index.html'}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
