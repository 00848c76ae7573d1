"""Settings: file, environment, and refusals that name file, key and reason."""

import msgspec
import pytest

from fairlead_wire.io import settings


class Delivery(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    maximum_delay: float = 30


class Model(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    node: str
    port: int = 10000
    topics: list[str] = []
    trigger: str | float = "available-now"
    delivery: Delivery = Delivery()

    def __post_init__(self):
        if self.port > 65535:
            raise ValueError("port: must be at most 65535")


def load(tmp_path, text, environ=()):
    file = tmp_path / "edge.toml"
    file.write_text(text)
    return settings.load("edge", Model, file, dict(environ))


def test_file_and_defaults(tmp_path):
    """What the file leaves out has its default."""
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
    """The key's type decides how the text is read."""
    assert load(tmp_path, "", {"FAIRLEAD_EDGE_NODE": "42"}).node == "42"


def test_no_file_is_needed():
    """A container may be configured by its environment alone."""
    assert settings.load("edge", Model, None, {"FAIRLEAD_EDGE_NODE": "n"}).node == "n"


@pytest.mark.parametrize(
    ("text", "key", "reason"),
    [
        ("", "node", "required"),
        ('node = "a"\ntypo = 1\n', "typo", "unknown key"),
        ('node = "a"\nport = "x"\n', "port", "Expected `int`"),
        ('node = "a"\nport = 70000\n', "port", "at most 65535"),
        ('node = "a"\n[delivery]\nmaximun_delay = 1\n', "delivery.maximun_delay", "unknown key"),
        ('node = "a"\n[delivery]\nmaximum_delay = "soon"\n', "delivery.maximum_delay", "Expected `float`"),
        ("node = \n", "", "not TOML"),
    ],
)
def test_refusals_name_file_key_and_reason(tmp_path, text, key, reason):
    """An operator can go straight to the line."""
    with pytest.raises(settings.SettingsError) as caught:
        load(tmp_path, text)
    assert caught.value.source.endswith("edge.toml")
    assert caught.value.key == key
    assert reason in caught.value.reason


def test_a_bad_variable_is_named(tmp_path):
    """Not the file but the variable is at fault."""
    with pytest.raises(settings.SettingsError) as caught:
        load(tmp_path, 'node = "a"\n', {"FAIRLEAD_EDGE_PORT": "many"})
    assert caught.value.source == "FAIRLEAD_EDGE_PORT"
    assert caught.value.key == "port"


def test_a_missing_file_is_named(tmp_path):
    """Never a stack trace."""
    with pytest.raises(settings.SettingsError, match=r"none\.toml: No such file"):
        settings.load("edge", Model, tmp_path / "none.toml", {})


def test_an_enormous_file_is_refused(tmp_path):
    """Bounded before it is parsed."""
    with pytest.raises(settings.SettingsError, match="larger than"):
        load(tmp_path, "#" * (settings.FILE_BYTES_MAX + 1))
