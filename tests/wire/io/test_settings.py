"""Settings: file, environment, and refusals that name file, key and reason."""

import io
from typing import Any

import msgspec
import pydantic
import pytest
from pydantic import Field

from fairlead_wire.io import logs, settings
from fairlead_wire.validation.file_path import FilePath
from fairlead_wire.validation.mistakes import wrong
from fairlead_wire.validation.model import Model as PydanticModel


class DeliveryStruct(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    maximum_delay: float = 30


class Struct(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    node: str
    port: int = 10000
    topics: list[str] = []
    trigger: str | float = "available-now"
    delivery: DeliveryStruct = DeliveryStruct()

    def __post_init__(self):
        check(self)


class DeliveryModel(PydanticModel):
    maximum_delay: float = 30


class ClusterModel(PydanticModel):
    node: str
    port: int = 10000
    topics: list[str] = Field(default=[])
    trigger: str | float = "available-now"
    delivery: DeliveryModel = DeliveryModel()

    @pydantic.model_validator(mode="after")
    def _check(self):
        check(self)
        return self


def check(model):
    if model.port > 65535:
        raise wrong("port", "must be at most 65535")


Model: Any = Struct


@pytest.fixture(params=[Struct, ClusterModel], autouse=True)
def _model(request):
    """What the agent reads, and what the programs of the cluster read: a person notices no difference."""
    global Model
    Model = request.param


def load(tmp_path, text, environ=()):
    file = tmp_path / "edge.toml"
    file.write_text(text)
    return settings.load("edge", Model, file, dict(environ))


def test_file_and_defaults(tmp_path):
    model = load(tmp_path, 'node = "a"\n[delivery]\nmaximum_delay = 7\n')
    assert (model.node, model.port, model.delivery.maximum_delay) == ("a", 10000, 7)


def test_the_environment_wins(tmp_path):
    """Every key is also a variable, nested tables joined with an underscore."""
    environ = {
        "FAIRLEAD_EDGE_NODE": "b",
        "FAIRLEAD_EDGE_PORT": "7",
        "FAIRLEAD_EDGE_TOPICS": '["x", "y"]',
        "FAIRLEAD_EDGE_DELIVERY_MAXIMUM_DELAY": "2.5",
        "FAIRLEAD_EDGE_TRIGGER": "1",
        "FAIRLEAD_HUB_PORT": "9",
    }
    model = load(tmp_path, 'node = "a"\n', environ)
    assert (model.node, model.port, model.topics, model.delivery.maximum_delay) == ("b", 7, ["x", "y"], 2.5)
    assert model.trigger == 1


def test_a_name_that_looks_like_a_number_stays_a_name(tmp_path):
    assert load(tmp_path, "", {"FAIRLEAD_EDGE_NODE": "42"}).node == "42"


@pytest.mark.parametrize(
    ("text", "key", "reason"),
    [
        ("", "node", "required"),
        ('node = "a"\ntypo = 1\n', "typo", "unknown key"),
        ('node = "a"\nport = "x"\n', "port", "must be a whole number, is 'x'"),
        ('node = "a"\nport = 70000\n', "port", "at most 65535"),
        ('node = "a"\n[delivery]\nmaximun_delay = 1\n', "delivery.maximun_delay", "unknown key"),
        ('node = "a"\n[delivery]\nmaximum_delay = "soon"\n', "delivery.maximum_delay", "must be a number, is 'soon'"),
        ("node = \n", "", "not TOML"),
    ],
)
def test_refusals_name_file_key_and_reason(tmp_path, text, key, reason):
    with pytest.raises(settings.SettingsError) as caught:
        load(tmp_path, text)
    assert caught.value.source.endswith("edge.toml")
    assert caught.value.key == key
    assert reason in caught.value.reason


def test_a_table_in_a_variable_is_judged_key_by_key():
    environ = {"FAIRLEAD_EDGE_NODE": "n", "FAIRLEAD_EDGE_DELIVERY": '{maximum_delay = "x", minimum = 1}'}
    with pytest.raises(settings.SettingsError) as caught:
        settings.load("edge", Model, None, {**environ, "FAIRLEAD_EDGE_TOPICS": "[1, 2]"})
    assert sorted(str(each.args[0]).partition("\n")[0] for each in caught.value.mistakes) == [
        "FAIRLEAD_EDGE_DELIVERY: delivery.maximum_delay: must be a number, is 'x'",
        "FAIRLEAD_EDGE_DELIVERY: delivery.minimum: unknown key",
        "FAIRLEAD_EDGE_TOPICS: topics[0]: must be text, is 1",
        "FAIRLEAD_EDGE_TOPICS: topics[1]: must be text, is 2",
    ]


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(settings.SettingsError, match=r"none\.toml: No such file"):
        settings.load("edge", Model, tmp_path / "none.toml", {})


def test_an_enormous_file_is_refused(tmp_path):
    with pytest.raises(settings.SettingsError, match=r"at most 1 MiB; is this the right file\?$"):
        load(tmp_path, "#" * (settings.FILE_BYTES_MAX + 1))


def test_all_mistakes_of_file_and_environment_are_reported_at_once(tmp_path, capsys):
    """Five mistakes are one restart, each with where it is and the nearest right key."""
    environ = {"FAIRLEAD_EDGE_PORT": "many", "FAIRLEAD_EDGE_DELIVERY_MAXIMUN_DELAY": "1", "FAIRLEAD_EDGE_NDOE": "x"}
    with pytest.raises(settings.SettingsError) as caught:
        load(tmp_path, 'topics = ["a", 1]\n[delivery]\nmaximum_dely = 3\n', environ)
    read = [str(each.args[0]).partition("\n")[0].removeprefix(str(tmp_path)) for each in caught.value.mistakes]
    assert read == [
        "FAIRLEAD_EDGE_PORT: port: must be a whole number, is 'many'",
        "FAIRLEAD_EDGE_DELIVERY_MAXIMUN_DELAY: is not a key of these settings; "
        "did you mean FAIRLEAD_EDGE_DELIVERY_MAXIMUM_DELAY?",
        "FAIRLEAD_EDGE_NDOE: is not a key of these settings; did you mean FAIRLEAD_EDGE_NODE?",
        "/edge.toml: node: required, but not set",
        "/edge.toml: topics[1]: must be text, is 1",
        "/edge.toml: delivery.maximum_dely: unknown key; did you mean delivery.maximum_delay?",
    ]
    assert settings.complain("edge", caught.value) == settings.EXIT_STATUS
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == len(read) and all(line.startswith("fairlead edge: ") for line in lines)


def test_what_kubelet_puts_into_the_environment_is_no_mistake():
    """A Service called fairlead-edge gives every container variables that begin like ours."""
    links = {
        "FAIRLEAD_EDGE_SERVICE_HOST": "10.0.0.1",
        "FAIRLEAD_EDGE_SERVICE_PORT": "1",
        "FAIRLEAD_EDGE_SERVICE_PORT_LOCAL_API": "1",
        "FAIRLEAD_EDGE_PORT_10550_TCP": "tcp://10.0.0.1:10550",
        "FAIRLEAD_EDGE_PORT_10550_TCP_ADDR": "10.0.0.1",
        "FAIRLEAD_PORT": "tcp://10.0.0.1:1",
    }
    assert settings.load("edge", Model, None, {"FAIRLEAD_EDGE_NODE": "n", **links}).node == "n"
    assert list(settings.unknown_variables(links)) == []


def test_variables_of_no_room_are_strange(monkeypatch):
    """They cannot be meant; the nearest room is named, and no program is stopped."""
    environ = {"FAIRLEAD_EGDE_NODE": "a", "FAIRLEAD_WHAT": "b", "FAIRLEAD_HUB_LISTEN": "c", "OTHER": "d"}
    assert list(settings.unknown_variables(environ)) == [
        ("FAIRLEAD_EGDE_NODE", "FAIRLEAD_EDGE_NODE"),
        ("FAIRLEAD_WHAT", None),
    ]
    stream = io.StringIO()
    logs.configure("edge", stream=stream)
    settings.warn_unknown_variables(environ)
    assert stream.getvalue().count("unknown_variable") == 2 and "did you mean FAIRLEAD_EDGE_NODE?" in stream.getvalue()
    assert settings.load("edge", Model, None, {"FAIRLEAD_EDGE_NODE": "n", **environ}).node == "n"


def test_the_variables_of_topics_do_not_disturb_messaging():
    """`fairlead topics` reads its address from the environment; the service beside it must start all the same."""

    class Plain(msgspec.Struct, forbid_unknown_fields=True):
        http_listen: str = "x"

    assert settings.load("messaging", Plain, None, dict.fromkeys(settings.KNOWN_VARIABLES, "x")).http_listen == "x"


class BelowStruct(msgspec.Struct, frozen=True, kw_only=True):
    table: FilePath = "t"


class PathsStruct(msgspec.Struct, kw_only=True):
    data_dir: FilePath
    ca: FilePath | None = None
    name: str = ""
    below: BelowStruct = BelowStruct()
    several: list[BelowStruct] = []


class BelowModel(PydanticModel):
    table: FilePath = "t"


class PathsModel(PydanticModel):
    data_dir: FilePath
    ca: FilePath | None = None
    name: str = ""
    below: BelowModel = BelowModel()
    several: list[BelowModel] = Field(default=[])


@pytest.mark.parametrize("Paths", [PathsStruct, PathsModel])
def test_a_tilde_is_the_home_folder(tmp_path, Paths):
    """As a shell would read it; in keys that are paths, wherever they come from, and nowhere else."""
    file = tmp_path / "a.toml"
    file.write_text('data_dir = "~"\nname = "~/x"\n[below]\ntable = "~/t"\n[[several]]\ntable = "~/u"\n')
    read = settings.load("edge", Paths, file, {"HOME": "/home/me", "FAIRLEAD_EDGE_CA": "~/ca.crt"})
    assert (read.data_dir, read.ca, read.name) == ("/home/me", "/home/me/ca.crt", "~/x")
    assert (read.below.table, read.several[0].table) == ("/home/me/t", "/home/me/u")


@pytest.mark.parametrize(
    "text", ["[" * 5000, "a = " + "[" * 5000, "a = " + "{a=" * 5000, "\xff", "\0", "a = " + "9" * 5000]
)
def test_garbage_is_a_sentence(tmp_path, text):
    with pytest.raises(settings.SettingsError, match="not TOML"):
        load(tmp_path, text)


def test_a_deeply_nested_variable_is_a_sentence():
    with pytest.raises(settings.SettingsError, match="must be"):
        settings.load("edge", Model, None, {"FAIRLEAD_EDGE_NODE": "n", "FAIRLEAD_EDGE_TOPICS": "[" * 5000})


class Required(PydanticModel):
    names: list[str]


def test_a_key_whose_variable_is_bad_is_not_called_missing():
    with pytest.raises(settings.SettingsError) as caught:
        settings.load("hub", Required, None, {"FAIRLEAD_HUB_NAMES": "[1]"})
    assert [each.key for each in caught.value.mistakes] == ["names[0]"]
