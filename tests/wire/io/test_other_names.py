"""Settings under the names that other programs give them."""

from __future__ import annotations

from typing import Any, ClassVar

import msgspec
import pytest

from fairlead_wire.io import other_names, settings

NAMES = {"checkAll": "cleanup.check_all", "storage.ttlSecs": "store.ttl_seconds"}


class Cleanup(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    check_all: bool = False


class Store(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    ttl_seconds: int = 7200


class Model(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    cleanup: Cleanup = Cleanup()
    store: Store = Store()
    OTHER_NAMES: ClassVar[dict[str, str]] = NAMES


def load(tmp_path: Any, text: str, **environ: str) -> Model:
    file = tmp_path / "edge.toml"
    file.write_text(text)
    return settings.load("edge", Model, file, environ)


@pytest.mark.parametrize(
    "text",
    [
        "checkAll = true\n[storage]\nttlSecs = 60",
        "[cleanup]\ncheckAll = true\n[storage]\nttlSecs = 60",
        "[cleanup]\ncheck_all = true\n[store]\nttl_seconds = 60",
    ],
)
def test_a_file_may_say_either(tmp_path: Any, text: str) -> None:
    """At the top, in the table of our key, or by our name."""
    assert load(tmp_path, text) == Model(cleanup=Cleanup(check_all=True), store=Store(ttl_seconds=60))


@pytest.mark.parametrize(
    "environ",
    [
        {"checkAll": "true", "storage": '{"ttlSecs": 60}'},
        {"CheckAll": "True", "STORAGE": '{"ttlSecs": 60, "other": 1}'},
        {"FAIRLEAD_EDGE_CHECKALL": "true", "FAIRLEAD_EDGE_storage": '{"ttlSecs": 60}'},
        {"FAIRLEAD_EDGE_CLEANUP_CHECK_ALL": "true", "FAIRLEAD_EDGE_STORE_TTL_SECONDS": "60"},
    ],
)
def test_variables_may_say_either_and_come_before_the_file(tmp_path: Any, environ: dict[str, str]) -> None:
    """In any case, as the other program reads them."""
    found = load(tmp_path, "checkAll = false\n[storage]\nttlSecs = 5", **environ)
    assert found == Model(cleanup=Cleanup(check_all=True), store=Store(ttl_seconds=60))


def test_json_that_does_not_name_the_key_says_nothing(tmp_path: Any) -> None:
    """As with the other program, the default counts."""
    assert load(tmp_path, "", storage="{}") == Model()


@pytest.mark.parametrize(
    ("text", "environ", "reason"),
    [
        (
            "checkAll = true\n[cleanup]\ncheck_all = true",
            {},
            "edge.toml: checkAll: is cleanup.check_all under another name; give one of them",
        ),
        (
            "",
            {"checkAll": "true", "FAIRLEAD_EDGE_CLEANUP_CHECK_ALL": "true"},
            "checkAll: is FAIRLEAD_EDGE_CLEANUP_CHECK_ALL under another name",
        ),
        ("", {"checkAll": "maybe"}, "checkAll: cleanup.check_all: must be true or false, is 'maybe'"),
        ("", {"storage": "60"}, 'storage: must be JSON like {"ttlSecs": 7200}'),
        ("", {"storage": "[" * 5000}, 'storage: must be JSON like {"ttlSecs": 7200}'),
        ("", {"storage": '{"ttlSecs": "x"}'}, "storage: store.ttl_seconds: must be a whole number, is 'x'"),
        ("[storage]\nttlSecs = 60\nodd = 1", {}, "edge.toml: storage: unknown key"),
        ("[cleanup]\ncheckall = true", {}, "edge.toml: cleanup.checkall: unknown key"),
    ],
)
def test_what_is_wrong_is_told_by_the_name_it_was_given(
    tmp_path: Any, text: str, environ: dict[str, str], reason: str
) -> None:
    """Two names for one setting are a mistake: one of the two values would not count."""
    with pytest.raises(settings.SettingsError) as refused:
        load(tmp_path, text, **environ)
    assert reason in str(refused.value)


def test_a_model_without_other_names_is_left_alone() -> None:
    """Most have none."""
    values = {"checkAll": True}
    assert list(other_names.in_file(values, other_names.of(Cleanup))) == [] and values == {"checkAll": True}
    assert other_names.variables({"checkAll": "1"}, "FAIRLEAD_EDGE_", Cleanup).environ == {"checkAll": "1"}


class Renamed(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    cleanup: Cleanup = Cleanup()
    FORMER_NAMES: ClassVar[dict[str, str]] = {"sweep.check_all": "cleanup.check_all"}


@pytest.mark.parametrize(
    ("text", "environ", "named"),
    [
        ("[sweep]\ncheck_all = true", {}, "sweep.check_all"),
        ("", {"FAIRLEAD_EDGE_SWEEP_CHECK_ALL": "true"}, "FAIRLEAD_EDGE_SWEEP_CHECK_ALL"),
    ],
)
def test_a_former_name_is_understood_and_reported(
    tmp_path: Any, text: str, environ: dict[str, str], named: str, caplog: pytest.LogCaptureFixture
) -> None:
    """With the present one, in the file or the environment."""
    file = tmp_path / "edge.toml"
    file.write_text(text)
    assert settings.load("edge", Renamed, file, environ).cleanup.check_all
    settings.tell_former("edge", Renamed, file, environ)
    [line] = caplog.records
    assert line.getMessage() == "setting_renamed" and named in str(line.__dict__)


def test_a_former_name_beside_the_present_one_is_a_mistake(tmp_path: Any) -> None:
    """One of the two values would not count."""
    file = tmp_path / "edge.toml"
    file.write_text("[sweep]\ncheck_all = true\n[cleanup]\ncheck_all = false")
    with pytest.raises(settings.SettingsError, match=r"is cleanup\.check_all under another name"):
        settings.load("edge", Renamed, file, {})
    file.write_text("")
    environ = {"FAIRLEAD_EDGE_SWEEP_CHECK_ALL": "true", "FAIRLEAD_EDGE_CLEANUP_CHECK_ALL": "false"}
    with pytest.raises(settings.SettingsError, match="under another name"):
        settings.load("edge", Renamed, file, environ)


def test_what_has_its_present_name_is_not_reported() -> None:
    """Nor what is not set."""
    assert list(other_names.in_use({"cleanup": {"check_all": True}}, {}, "FAIRLEAD_EDGE_", Renamed)) == []


def test_former_name_is_read_under_the_rooms_prefix_alone_and_may_be_an_empty_table() -> None:
    """A variable called BRAKE may be any program's; an empty table under a former name says nothing."""
    assert other_names.variables({"SWEEP": "on"}, "FAIRLEAD_EDGE_", Renamed).environ == {"SWEEP": "on"}
    values: dict[str, object] = {"sweep": {}}
    assert list(other_names.in_file(values, other_names.of(Renamed))) == [] and values == {}


class Line(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    made_of: str = ""


class Lines(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    lines: list[Line] = []
    FORMER_NAMES: ClassVar[dict[str, str]] = {"lines[].kind": "lines[].made_of"}


def test_a_former_name_in_each_table_of_a_list_is_understood_and_reported(tmp_path: Any) -> None:
    text = '[[lines]]\nkind = "a"\n[[lines]]\nmade_of = "b"\n'
    file = tmp_path / "edge.toml"
    file.write_text(text)
    assert [each.made_of for each in settings.load("edge", Lines, file, {}).lines] == ["a", "b"]
    values = {"lines": [{"kind": "a"}, {}]}
    assert list(other_names.in_use(values, {}, "FAIRLEAD_EDGE_", Lines)) == [("lines[].kind", "lines[].made_of")]
    file.write_text(text.replace("made_of", 'kind = "c"\nmade_of'))
    with pytest.raises(settings.SettingsError, match=r"lines\[1\]\.kind: is made_of under another name"):
        settings.load("edge", Lines, file, {})
    assert list(other_names.in_file({"lines": ["text", None]}, other_names.of(Lines))) == []
