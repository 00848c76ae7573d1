"""The methods of both clients, written once: each builds a request and sends it.

    publish = Method(requests.publish)      client.publish(…)        → Published     (``BlockingClient``)
                                           await client.publish(…)                  (``AwaitingClient``)

A method has the name, docstring and arguments of its request, so that editors and ``help`` show them.
"""

from __future__ import annotations

import functools
import inspect
from abc import ABC, abstractmethod
from collections.abc import Callable, Coroutine
from typing import Any, Concatenate, Generic, ParamSpec, TypeVar, overload

from fairlead_messaging.client import requests
from fairlead_messaging.client.request import ClientRequest, split
from fairlead_messaging.client.script import Pause

P = ParamSpec("P")
T = TypeVar("T")


class Method(Generic[P, T]):
    """Calls ``do(build(…))`` of the client it belongs to."""

    def __init__(self, build: Callable[P, ClientRequest[T]]) -> None:
        def method(self: Any, /, *args: Any, **kwargs: Any) -> Any:
            return self.do(build(*args, **kwargs))

        functools.update_wrapper(method, build)
        signature = inspect.signature(build)
        itself = inspect.Parameter("self", inspect.Parameter.POSITIONAL_ONLY)
        method.__signature__ = signature.replace(  # type: ignore[attr-defined]
            parameters=[itself, *signature.parameters.values()], return_annotation=inspect.Signature.empty
        )
        self._method = method

    @overload
    def __get__(self, client: BlockingClient, owner: type | None = None) -> Callable[P, T]: ...

    @overload
    def __get__(self, client: AwaitingClient, owner: type | None = None) -> Callable[P, Coroutine[Any, Any, T]]: ...

    @overload
    def __get__(self, client: None, owner: type | None = None) -> Callable[..., Any]: ...

    def __get__(self, client: Any, owner: type | None = None) -> Any:
        return self._method if client is None else self._method.__get__(client, owner)


def on_topic(
    build: Callable[Concatenate[str, str, P], ClientRequest[T]],
) -> Callable[Concatenate[str, P], ClientRequest[T]]:
    """The same request with one argument ``namespace/name`` in place of a namespace and a name."""

    def named(topic: str, /, *args: P.args, **kwargs: P.kwargs) -> ClientRequest[T]:
        return build(*split(topic), *args, **kwargs)

    functools.update_wrapper(named, build)
    signature = inspect.signature(build)
    topic = inspect.Parameter("topic", inspect.Parameter.POSITIONAL_ONLY, annotation="str")
    named.__signature__ = signature.replace(  # type: ignore[attr-defined]
        parameters=[topic, *list(signature.parameters.values())[2:]]
    )
    return named


class Methods:
    """A method for every call of the service."""

    create_topic = Method(requests.create_topic)
    topic = Method(requests.topic)
    namespaces = Method(requests.namespaces)
    topics = Method(requests.topics)
    update_topic = Method(requests.update_topic)
    delete_topic = Method(requests.delete_topic)

    publish = Method(requests.publish)
    poll = Method(requests.poll)
    inspect = Method(requests.inspect)

    plan = Method(requests.plan)
    offsets = Method(requests.offsets)
    note_reader = Method(requests.note_reader)
    readers = Method(requests.readers)
    poll_arrow = Method(requests.poll_arrow)

    start_transaction = Method(requests.start_transaction)
    renew_transaction = Method(requests.renew_transaction)
    finish_transaction = Method(requests.finish_transaction)
    transactions = Method(requests.transactions)
    publish_in = Method(requests.publish_in)
    store_in = Method(requests.store_in)
    roll_back = Method(requests.roll_back)

    put_subscription = Method(requests.put_subscription)
    subscription = Method(requests.subscription)
    subscriptions = Method(requests.subscriptions)
    delete_subscription = Method(requests.delete_subscription)


class BlockingClient(ABC):
    """A client whose methods block until the service has answered."""

    @abstractmethod
    def do(self, asked: ClientRequest[T]) -> T:
        """Send any request, retried as far as the client's ``retries`` allow."""

    @abstractmethod
    def take(self, step: ClientRequest[Any] | Pause) -> Any:
        """Perform a step of a script: send the request, or wait."""


class AwaitingClient(ABC):
    """A client whose methods are awaited."""

    @abstractmethod
    async def do(self, asked: ClientRequest[T]) -> T:
        """Send any request, retried as far as the client's ``retries`` allow."""

    @abstractmethod
    async def take(self, step: ClientRequest[Any] | Pause) -> Any:
        """Perform a step of a script: send the request, or wait."""
