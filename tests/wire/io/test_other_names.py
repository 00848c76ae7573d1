"""Settings under the names that other programs give them."""

from __future__ import annotations

from typing import Any, ClassVar

import msgspec
import pytest

from fairlead_wire.io import settings

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
    found = load(tmp_path, "checkAll = false\n[storage]\nttlSecs = 5", **environ)
    assert found == Model(cleanup=Cleanup(check_all=True), store=Store(ttl_seconds=60))


def test_json_that_does_not_name_the_key_says_nothing(tmp_path: Any) -> None:
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


def test_a_model_without_other_names_accepts_none(tmp_path: Any) -> None:
    file = tmp_path / "edge.toml"
    file.write_text("checkAll = true")
    with pytest.raises(settings.SettingsError, match="checkAll: unknown key"):
        settings.load("edge", Cleanup, file, {})
    assert not settings.load("edge", Cleanup, None, {"checkAll": "1"}).check_all
