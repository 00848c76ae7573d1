"""The control plane's builder: what it builds, from where, and what it says when it cannot."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from e2e.controlplane import build
from tests.support.kube.assets import BUILDER


def fake_assets(folder: Path, *names: str) -> Path:
    """A folder with executables of these names."""
    folder.mkdir()
    for name in names:
        (folder / name).write_text("#!/bin/sh\n")
        (folder / name).chmod(0o755)
    return folder


def run(*arguments: str, **environ: str) -> subprocess.CompletedProcess[str]:
    """Run the builder as a program with nothing in its environment but `environ`."""
    return subprocess.run(
        [sys.executable, str(BUILDER), *arguments], env=environ, capture_output=True, text=True, timeout=120
    )


def test_a_real_node_needs_more() -> None:
    """`--with node` adds and never repeats."""
    names = build.parse(["--with", "node", "helm", "kubectl"])
    assert names == ("helm", "kubectl", "kube-scheduler", "kube-proxy", "kubelet", "coredns")


def test_an_unknown_program_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    """A misspelt name ends with exit 2 and the list of known ones."""
    with pytest.raises(SystemExit, match="2"):
        build.parse(["kubeapiserver"])
    assert "no such program: kubeapiserver; known are etcd" in capsys.readouterr().err


def test_a_changed_pin_changes_the_cache_folder(tmp_path: Path) -> None:
    """Programs of different pins never share a folder."""
    (tmp_path / "etcd").mkdir()
    (tmp_path / "etcd" / "go.mod").write_text("a")
    before = build.fingerprint(tmp_path)
    (tmp_path / "etcd" / "go.mod").write_text("b")
    assert build.fingerprint(tmp_path) != before


def test_a_pin_apart_changes_its_own_folder_alone(tmp_path: Path) -> None:
    """What few tests need is built without building the control plane again."""
    for module in ("etcd", *build.APART):
        (tmp_path / module).mkdir()
        (tmp_path / module / "go.mod").write_text("a")
    before = build.fingerprint(tmp_path), build.fingerprint(tmp_path, "certmanager")
    (tmp_path / "certmanager" / "main.go").write_text("b")
    assert build.fingerprint(tmp_path) == before[0]
    assert build.fingerprint(tmp_path, "certmanager") != before[1]
    assert build.place("cert-manager", tmp_path) != build.place("helm", tmp_path) == tmp_path / build.fingerprint()


@pytest.mark.process
def test_complete_kubebuilder_assets_are_used_as_they_are(tmp_path: Path) -> None:
    """The envtest convention: their folder is the answer, alone on standard output."""
    given = fake_assets(tmp_path / "given", *build.DEFAULT)
    done = run(KUBEBUILDER_ASSETS=str(given), HOME=str(tmp_path))
    assert (done.returncode, done.stdout) == (0, f"{given}\n")


@pytest.mark.process
def test_incomplete_kubebuilder_assets_are_completed_from_the_cache(tmp_path: Path) -> None:
    """What they lack comes from the cache; one folder has everything, and theirs wins."""
    given = fake_assets(tmp_path / "given", "kube-apiserver", "etcd")
    cached = tmp_path / "cache" / "fairlead" / "controlplane" / build.fingerprint()
    cached.parent.mkdir(parents=True)
    fake_assets(cached, *build.DEFAULT)
    done = run(KUBEBUILDER_ASSETS=str(given), XDG_CACHE_HOME=str(tmp_path / "cache"))
    folder = Path(done.stdout.strip())
    assert done.returncode == 0, done.stderr
    assert (folder / "etcd").resolve() == given / "etcd"
    assert (folder / "kubectl").resolve() == cached / "kubectl"
    assert all(build.is_program(folder / name) for name in build.DEFAULT)


@pytest.mark.process
def test_kubebuilder_assets_that_are_no_folder_are_an_error(tmp_path: Path) -> None:
    """A misspelt path must not start a build of six minutes."""
    done = run(KUBEBUILDER_ASSETS=str(tmp_path / "none"), HOME=str(tmp_path))
    assert done.returncode == 1
    assert done.stdout == ""
    assert "is not a folder; unset it or point it at one" in done.stderr


@pytest.mark.process
def test_without_go_one_sentence_says_what_to_install(tmp_path: Path) -> None:
    """No stack trace, nothing on standard output, exit 1."""
    done = run("helm", PATH=str(tmp_path), HOME=str(tmp_path))
    assert (done.returncode, done.stdout) == (1, "")
    assert "install Go 1.26 or newer" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.process
def test_a_failed_build_tells_the_end_of_its_log(tmp_path: Path) -> None:
    """Exit 1 with what the compiler said, and no half-made program in the cache."""
    tools = fake_assets(tmp_path / "tools", "go")
    (tools / "go").write_text('#!/bin/sh\n[ "$1" = build ] || exit 0\necho "package broken: no such file"\nexit 3\n')
    done = run("etcd", PATH=f"{tools}:{os.defpath}", HOME=str(tmp_path))
    assert done.returncode == 1
    assert "building etcd failed (go exited with 3)" in done.stderr
    assert "package broken: no such file" in done.stderr
    assert not list(tmp_path.glob(".cache/fairlead/controlplane/*/etcd"))


@pytest.mark.process
def test_two_builds_at_once_make_a_program_once(tmp_path: Path) -> None:
    """The second waits for the first one's lock and uses what it made."""
    tools = fake_assets(tmp_path / "tools", "go")
    count = tmp_path / "count"
    (tools / "go").write_text(
        '#!/bin/sh\n[ "$1" = build ] || exit 0\n'
        f"echo made >> {count}\n"
        'while [ "$1" != -o ]; do shift; done\nsleep 0.3\nprintf "#!/bin/sh\\n" > "$2"; chmod +x "$2"\n'
    )
    command = [sys.executable, str(BUILDER), "etcd"]
    environ = {"PATH": f"{tools}:{os.defpath}", "HOME": str(tmp_path)}
    both = [
        subprocess.Popen(command, env=environ, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        for _ in range(2)
    ]
    answers = [each.communicate(timeout=120)[0] for each in both]
    assert answers[0] == answers[1] != ""
    assert count.read_text() == "made\n"


def test_progress_is_counted_in_packages_and_keeps_the_linker_for_the_end(tmp_path: Path) -> None:
    """By what `go build -v` writes; what compilers and downloads say is not counted."""
    assert str(build.compilation("etcd", tmp_path)) == "loading modules"
    (tmp_path / ".etcd.packages").write_text("4")
    (tmp_path / "etcd.log").write_text("go: downloading a v1\nvendor/a\nb.c/d\n# b.c/d\nb.c/d/e.go:1: odd thing\n")
    seen = build.compilation("etcd", tmp_path)
    assert (str(seen), seen.share) == ("2 of 4 packages", (1 - build.LINK_SHARE) / 2)
    linking = build.Compilation(packages=4, compiled=4)
    assert (str(linking), linking.share) == ("linking 4 packages", 1 - build.LINK_SHARE)


def test_what_is_left_is_told_after_the_first_minute() -> None:
    """In tens of seconds, by what this machine did so far."""
    assert build.remaining(0.25, 59) == ""
    assert build.remaining(0.0, 90) == ""
    assert build.remaining(0.25, 90) == "about 270 s left"
    assert build.remaining(0.999, 90) == "about 10 s left"


def test_old_pins_are_removed_beyond_the_newest_four(tmp_path: Path) -> None:
    """Each folder is hundreds of megabytes; old ones do not pile up."""
    for age in range(5):
        folder = tmp_path / f"pin{age}"
        folder.mkdir()
        os.utime(folder, (1000 - age, 1000 - age))
    build.forget_old(tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["pin0", "pin1", "pin2", "pin3"]
