"""Generated methods look like written ones."""

from __future__ import annotations

import inspect

import pytest

from fairlead_messaging.client import request
from fairlead_messaging.client.io.async_client import MessagingClient
from fairlead_messaging.client.io.sync_client import SyncMessagingClient

CLIENTS = [MessagingClient, SyncMessagingClient]


@pytest.mark.parametrize("client", CLIENTS)
def test_a_method_has_the_name_the_text_and_the_arguments_of_its_call(client: type) -> None:
    """So that editors and help() show them."""
    method = vars(client)["publish"]
    assert method.__name__ == "publish"
    assert method.__doc__ == request.publish.__doc__
    assert list(inspect.signature(method).parameters)[:4] == ["self", "namespace", "name", "payloads"]


def test_both_clients_have_every_call() -> None:
    """No end may lack what the other can do."""
    every = {
        name
        for name, function in vars(request).items()
        if inspect.isfunction(function) and str(inspect.signature(function).return_annotation).startswith("Call[")
    } - {"post"}
    helpers = {name for name in every if name.startswith("_")}
    for client in CLIENTS:
        assert every - helpers <= set(vars(client)), client
