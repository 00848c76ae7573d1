"""The methods of both clients."""

from __future__ import annotations

import inspect
from typing import Any

import pytest

from fairlead_messaging.client import requests
from fairlead_messaging.client.io.async_client import AsyncClient
from fairlead_messaging.client.io.sync_client import BulkClient, Client
from fairlead_messaging.client.methods import BlockingClient, Method, Methods, on_topic
from fairlead_messaging.client.request import ClientRequest
from fairlead_wire.errors import LocalError

CLIENTS = [AsyncClient, Client]


class Recorder(Methods, BlockingClient):
    """Answers what it was asked."""

    def do(self, asked: ClientRequest[Any]) -> Any:
        return asked

    def take(self, step: Any) -> Any:
        return step


@pytest.mark.parametrize("client", CLIENTS)
def test_a_method_has_the_name_the_text_and_the_arguments_of_its_request(client: Any) -> None:
    """So that editors and help() show them."""
    assert client.publish.__name__ == "publish"
    assert client.publish.__doc__ == requests.publish.__doc__
    assert list(inspect.signature(client.publish).parameters)[:4] == ["self", "namespace", "name", "payloads"]


def test_both_clients_have_every_request() -> None:
    """No end may lack what the other can do."""
    every = {
        name
        for name, function in vars(requests).items()
        if inspect.isfunction(function)
        and function.__module__.startswith(requests.__name__)
        and str(inspect.signature(function).return_annotation).startswith("ClientRequest[")
    }
    every = {name for name in every if not name.startswith("_")}
    assert {"publish", "poll", "plan", "finish_transaction"} <= every
    assert every == {name for name, value in vars(Methods).items() if isinstance(value, Method)}


def test_a_method_sends_its_request() -> None:
    """With the arguments it was given."""
    recorder: Any = Recorder()  # its answers are the requests
    assert recorder.topics("n").path == "/v1/namespaces/n/topics"
    assert recorder.poll("n", "t", wait_ms=500).wait_seconds == 0.5


def test_a_topic_may_stand_for_two_names() -> None:
    """As batch engines name it."""
    named = on_topic(requests.plan)
    assert named("n/t", after="").path == requests.plan("n", "t", after="").path
    assert list(inspect.signature(BulkClient.plan).parameters)[:3] == ["self", "topic", "after"]
    with pytest.raises(LocalError):
        named("n", after="")
