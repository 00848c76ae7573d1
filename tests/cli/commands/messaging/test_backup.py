"""`fairlead messaging backup` and `restore`: a file that is complete, or none; a store that is complete, or none."""

from __future__ import annotations

import errno
import json
import os
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from tests.cli.commands.messaging.test_dump import dump, lines, some, stopped
from tests.support.small_disk import small_disk
from tests.support.topics.messaging import Topics

from fairlead_cli.commands.messaging import backup as command
from fairlead_cli.main import build
from fairlead_messaging.server import backup

KINDS = ("rocksdb", "sqlite")


def run(*words: str | Path) -> Result:
    return CliRunner().invoke(build(), ["messaging", *map(str, words)])


@pytest.mark.parametrize("kind", KINDS)
def test_a_stopped_store_there_and_back(tmp_path: Path, kind: str) -> None:
    stopped(tmp_path / "old", kind, some)
    done = run("backup", "--data-dir", tmp_path / "old", "--out", tmp_path / "b", "-o", "json")
    assert done.exit_code == 0, done.output
    said = json.loads(done.stdout)
    assert (said["file"], said["bytes"]) == (str(tmp_path / "b"), (tmp_path / "b").stat().st_size)
    assert (tmp_path / "b").stat().st_mode & 0o777 == 0o600
    other = KINDS[kind == "rocksdb"]
    done = run("restore", tmp_path / "b", "--data-dir", tmp_path / "new", "--store", other)
    assert done.exit_code == 0, done.output
    assert done.stdout.startswith(f"{tmp_path / 'b'} restored to {tmp_path / 'new'} ({other}): {said['rows']} rows")
    assert lines(dump(tmp_path / "new", "--keys")) == lines(dump(tmp_path / "old", "--keys"))
    assert (tmp_path / "new").stat().st_mode & 0o077 == 0


def test_of_a_running_service(messaging: Topics, tmp_path: Path) -> None:
    """The account's options are those of `fairlead topics`; `--check` says whether the file is complete."""
    done = run("backup", "--url", messaging.url, "--out", tmp_path / "b", "-o", "json")
    assert done.exit_code == 0, done.output
    assert json.loads(done.stdout)["service"] == "test-service"
    done = run("restore", tmp_path / "b", "--check", "-o", "json")
    assert (done.exit_code, json.loads(done.stdout)["service"]) == (0, "test-service")
    done = run("restore", tmp_path / "b", "--check")
    assert done.stdout.startswith(f"{tmp_path / 'b'} is complete: ")


def test_nothing_is_written_over(messaging: Topics, tmp_path: Path) -> None:
    (tmp_path / "b").write_text("mine")
    done = run("backup", "--url", messaging.url, "--out", tmp_path / "b")
    assert done.exit_code == 2 and "already exists" in done.output and (tmp_path / "b").read_text() == "mine"
    stopped(tmp_path / "old", "sqlite", some)
    assert run("backup", "--data-dir", tmp_path / "old", "--out", tmp_path / "c").exit_code == 0
    done = run("restore", tmp_path / "c", "--data-dir", tmp_path / "old")
    assert done.exit_code == 1 and "holds a store already (messaging.sqlite)" in done.stderr


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["backup", "--data-dir", "{empty}", "--out", "{out}"], 2, "holds no store"),
        (["backup", "--url", "http://127.0.0.1:1", "--out", "{out}"], 1, "connection refused"),
        (["backup", "--url", "http://127.0.0.1:1"], 2, "--out"),
        (["backup", "--data-dir", "{store}", "--out", "{empty}/none/b"], 1, "No such file or directory"),
        (["restore", "{text}", "--check"], 1, "does not begin like a backup of messaging"),
        (["restore", "{text}", "--data-dir", "{empty}"], 1, "does not begin like a backup of messaging"),
        (["restore", "{text}"], 2, "give --data-dir, or --check"),
        (["restore", "{text}", "--check", "--data-dir", "{empty}"], 2, "give --data-dir, or --check"),
        (["restore", "{empty}/none", "--check"], 2, "does not exist"),
    ],
)
def test_one_sentence_and_nothing_left(tmp_path: Path, words: list[str], code: int, said: str) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "text").write_text("orders\n" * 100)
    stopped(tmp_path / "store", "sqlite", some)
    places = {name: str(tmp_path / name) for name in ("empty", "text", "store", "out")}
    done = run(*(each.format(**places) for each in words))
    assert done.exit_code == code and said in done.output, done.output
    assert "Traceback" not in done.output and not (tmp_path / "out").exists()
    assert not list(tmp_path.rglob("*.part"))
    assert {each.name for each in (tmp_path / "empty").iterdir()} <= {"lock"}


@pytest.mark.process
def test_a_full_disk_leaves_no_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither of a backup nor of a store; then there is room, and it goes on."""
    stopped(tmp_path / "old", "sqlite", some)
    monkeypatch.setattr(backup, "BLOCK_BYTES", 1)
    assert run("backup", "--data-dir", tmp_path / "old", "--out", tmp_path / "whole").exit_code == 0
    with small_disk(tmp_path / "disk", 8 << 20) as disk:
        disk.fill()
        done = run("backup", "--data-dir", tmp_path / "old", "--out", disk.path / "b")
        assert done.exit_code == 1 and "No space left on device" in done.stderr, done.output
        assert {each.name for each in disk.path.iterdir()} == {"filling"}
        done = run("restore", tmp_path / "whole", "--data-dir", disk.path / "new", "--store", "sqlite")
        assert done.exit_code == 1 and "Traceback" not in done.output, done.output
        disk.free()
        assert run("backup", "--data-dir", tmp_path / "old", "--out", disk.path / "b").exit_code == 0
        done = run("restore", disk.path / "b", "--data-dir", disk.path / "new", "--store", "sqlite")
        assert done.exit_code == 0, done.output


def test_a_partial_file_of_a_killed_backup_does_not_block_the_next(tmp_path: Path) -> None:
    stopped(tmp_path / "old", "sqlite", some)
    (tmp_path / f"b{command.PARTIAL}").write_text("half")
    assert run("backup", "--data-dir", tmp_path / "old", "--out", tmp_path / "b").exit_code == 0
    assert os.listdir(tmp_path).count(f"b{command.PARTIAL}") == 0


def test_two_at_once_do_not_touch_each_others_file(
    messaging: Topics, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The one that is refused, by the service or by the first one's file, leaves that alone."""
    stopped(tmp_path / "old", "sqlite", some)
    said: list[Result] = []
    fsync = os.fsync

    def meanwhile(file: int) -> None:
        fsync(file)
        monkeypatch.undo()
        said.append(run("backup", "--url", "http://127.0.0.1:1", "--out", tmp_path / "b"))
        said.append(run("backup", "--data-dir", tmp_path / "old", "--out", tmp_path / "b"))

    monkeypatch.setattr("fairlead_cli.commands.messaging.backup.os.fsync", meanwhile)
    done = run("backup", "--url", messaging.url, "--out", tmp_path / "b", "-o", "json")
    assert done.exit_code == 0, done.output
    assert [each.exit_code for each in said] == [1, 1]
    assert "another backup is writing it" in said[1].stderr
    assert json.loads(done.stdout)["bytes"] == (tmp_path / "b").stat().st_size
    assert run("restore", tmp_path / "b", "--check").exit_code == 0
    assert sorted(os.listdir(tmp_path)) == ["b", "old"]


@pytest.mark.parametrize("there", ["folder", "link", "long"])
def test_odd_names_are_one_sentence(tmp_path: Path, there: str) -> None:
    """A folder or a link in the place of the partial file, a name that is too long for one."""
    stopped(tmp_path / "old", "sqlite", some)
    out = tmp_path / ("b" * 253 if there == "long" else "b")
    (tmp_path / "mine").write_text("mine")
    if there == "folder":
        (tmp_path / "b.part" / "deep").mkdir(parents=True)
    elif there == "link":
        (tmp_path / "b.part").symlink_to(tmp_path / "mine")
    done = run("backup", "--data-dir", tmp_path / "old", "--out", out)
    assert done.exit_code == 1 and done.stderr.startswith("fairlead messaging backup: "), done.output
    assert isinstance(done.exception, SystemExit) and len(done.stderr.splitlines()) == 1 and not out.exists()
    assert (tmp_path / "mine").read_text() == "mine"


def test_a_file_system_without_hard_links(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As on memory sticks; a file that came meanwhile stays there, too."""
    stopped(tmp_path / "old", "sqlite", some)

    def refused(*_: object) -> None:
        raise PermissionError(errno.EPERM, "Operation not permitted")

    monkeypatch.setattr("fairlead_cli.commands.messaging.backup.os.link", refused)
    assert run("backup", "--data-dir", tmp_path / "old", "--out", tmp_path / "b").exit_code == 0
    assert run("restore", tmp_path / "b", "--check").exit_code == 0
    with pytest.raises(FileExistsError):
        command._name(tmp_path / "b.part", tmp_path / "b")
    assert sorted(os.listdir(tmp_path)) == ["b", "old"]
