"""Each command on subscriptions is answered by what it is typed with."""

from __future__ import annotations

from tests.support.topics.messaging_core import NAMESPACE, Core, answers_as_typed

from fairlead_messaging.server.subscriptions import effective_policy
from fairlead_messaging.server.subscriptions.commands import DeleteSubscription, PutSubscription, RecordDelivery
from fairlead_messaging.server.subscriptions.subscription import SubscriptionRecord
from fairlead_wire.delivery_policy import DeliveryPolicy

DEFAULT = effective_policy.digest(DeliveryPolicy())


def test_each_command_on_subscriptions_is_answered_by_its_type() -> None:
    """None: the record is read where it is needed."""
    core = Core()
    generation = core.create("t").generation
    of = {"namespace": NAMESPACE, "name": "t", "subscription": "s"}
    record = SubscriptionRecord(url="http://127.0.0.1:1/")
    answers_as_typed(core, PutSubscription(**of, record=record))
    answers_as_typed(core, RecordDelivery(**of, generation=generation, record=record, policy=DEFAULT))
    answers_as_typed(core, DeleteSubscription(**of))
