"""SyncRules as users write them, field by field, with limits; and the parts they share with EdgeRoutes.

``kubectl explain`` prints the descriptions, and the API server checks the limits.  A rule over several fields is
written twice, side by side: in Common Expression Language for the API server, in Python for the hub.
"""

from __future__ import annotations

import re
from typing import Annotated, Any, Literal, Self

import pydantic
from pydantic import Field
from pydantic.alias_generators import to_camel

from fairlead_hub.cluster.custom_resources.structural_schema import CLOSED
from fairlead_hub.settings import NodeDelivery
from fairlead_wire.delivery_policy import DELAY_SECONDS_LIMIT, RETRIES_LIMIT
from fairlead_wire.validation import mistakes
from fairlead_wire.validation.model import Model

_RULES = "x-kubernetes-validations"
LABEL_VALUE = r"^([A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?$"
LABEL_KEY = (
    r"^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?"
    r"[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?$"
)
_LABEL_KEY = re.compile(LABEL_KEY)
LABEL_KEY_CHARS_MAX = 317
NO_LABEL = "is not a label key such as site or example.com/site"


def like(pattern: str, otherwise: str) -> Any:
    """Text that the whole pattern fits; what it is otherwise, in words, since patterns are for machines."""
    whole = re.compile(pattern)

    def check(text: str) -> str:
        if whole.fullmatch(text) is None:
            raise mistakes.wrong("", f"{mistakes.shown(text)} {otherwise}")
        return text

    return pydantic.AfterValidator(check)


LabelValue = Annotated[
    str,
    Field(max_length=63, json_schema_extra={"pattern": LABEL_VALUE}),
    like(
        LABEL_VALUE,
        "is not a label value: letters, digits, -, _ and ., beginning and ending with a letter or digit",
    ),
]
Priority = Annotated[int, Field(ge=0, le=9)]


class SpecModel(Model):
    """Keys in camel case, as in Kubernetes (``nodeSelector``)."""

    model_config = pydantic.ConfigDict(alias_generator=to_camel)


NULLABLE: dict[str, Any] = {"nullable": True}
"""Server-side apply leaves null where all fields of an object were removed, so null has to mean the same as absent."""


def closed(*rules: tuple[str, str], **more: Any) -> pydantic.ConfigDict:
    extra: dict[str, Any] = {CLOSED: True, **more}
    if rules:
        extra[_RULES] = [{"rule": rule, "message": message} for rule, message in rules]
    return pydantic.ConfigDict(json_schema_extra=extra)


class LabelExpression(SpecModel):
    model_config = closed(
        (
            "(self.operator in ['In', 'NotIn']) == (has(self.values) && size(self.values) > 0)",
            "In and NotIn need values, Exists and DoesNotExist take none",
        )
    )

    key: Annotated[str, like(LABEL_KEY, NO_LABEL)] = Field(
        description="Key of the label.",
        min_length=1,
        max_length=LABEL_KEY_CHARS_MAX,
        json_schema_extra={"pattern": LABEL_KEY},
    )
    operator: Literal["In", "NotIn", "Exists", "DoesNotExist"] = Field(
        description="How the label is compared with the values."
    )
    values: list[LabelValue] | None = Field(default=None, max_length=256, description="Values, for In and NotIn.")

    @pydantic.model_validator(mode="after")
    def _check(self) -> Self:
        if bool(self.values) != (self.operator in ("In", "NotIn")):
            raise mistakes.wrong("values", f"{'not allowed' if self.values else 'needed'} with {self.operator}")
        return self


_KEYS = LABEL_KEY.replace("\\", "\\\\")


class LabelSelector(SpecModel):
    model_config = closed(**NULLABLE)

    match_labels: dict[str, LabelValue] | None = Field(
        default=None,
        max_length=64,
        description="Labels that must be present with these values.",
        json_schema_extra={
            **NULLABLE,
            _RULES: [
                {
                    "rule": f"self.all(key, size(key) <= {LABEL_KEY_CHARS_MAX} && key.matches('{_KEYS}'))",
                    "message": "a key is not a label key such as site or example.com/site",
                }
            ],
        },
    )
    match_expressions: list[LabelExpression] | None = Field(
        default=None, max_length=64, description="Conditions on labels; all must be true.", json_schema_extra=NULLABLE
    )

    @pydantic.model_validator(mode="after")
    def _check(self) -> Self:
        for key in self.match_labels or ():
            if len(key) > LABEL_KEY_CHARS_MAX or _LABEL_KEY.fullmatch(key) is None:
                raise mistakes.wrong(
                    "matchLabels", f"{mistakes.shown(key)} is not a label key such as site or example.com/site"
                )
        return self


SELECTOR = "A Kubernetes label selector; empty or absent selects all. Unknown fields are refused."
_Count = Annotated[int, Field(ge=0, le=RETRIES_LIMIT)]
_LIMITS = Field(ge=0, le=DELAY_SECONDS_LIMIT)
_Seconds = Annotated[int, _LIMITS] | Annotated[float, _LIMITS]

_MIN = "(has(self.minimum_delay) ? double(self.minimum_delay) : 1.0)"
_MAX = "(has(self.maximum_delay) ? double(self.maximum_delay) : 30.0)"
_DELIVERY_RULES = (
    (f"{_MAX} >= {_MIN}", "maximum_delay must not be below minimum_delay; the defaults are 30 and 1"),
    (
        "(has(self.retry_backoff_function) ? self.retry_backoff_function in ['linear', 'arithmetic'] : false)"
        " || !has(self.minimum_delay) || double(self.minimum_delay) > 0.0",
        "minimum_delay must be above 0 for the geometric and exponential curves, which multiply it; the default curve"
        " is exponential",
    ),
    (
        f"(has(self.retries_max) && self.retries_max <= {RETRIES_LIMIT}) ||"
        " (has(self.retries_with_no_delay) ? self.retries_with_no_delay : 0) +"
        " (has(self.minimum_delay_retries) ? self.minimum_delay_retries : 0) +"
        " (has(self.maximum_delay_retries) ? self.maximum_delay_retries : 0) +"
        f" (has(self.backoff_retries) ? self.backoff_retries : 5) <= {RETRIES_LIMIT}",
        f"the policy has more than {RETRIES_LIMIT} retries",
    ),
    (
        "!has(self.compatibility) ||"
        " (!has(self.minimum_delay) || double(int(self.minimum_delay)) == double(self.minimum_delay)) &&"
        " (!has(self.maximum_delay) || double(int(self.maximum_delay)) == double(self.maximum_delay))",
        "with compatibility, delays are whole seconds",
    ),
    (
        f"!has(self.compatibility) || self.compatibility != 'zaqar' || {_MAX} - {_MIN} >= 10.0",
        "with compatibility zaqar, maximum_delay is at least 10 seconds above minimum_delay",
    ),
    (
        f"!has(self.compatibility) || self.compatibility != 'sns' || {_MIN} >= 1.0 && {_MAX} <= 3600.0",
        "with compatibility sns, delays are from 1 to 3600 seconds",
    ),
    ("!has(self.ack_timeout) || double(self.ack_timeout) >= 0.05", "ack_timeout is at least 0.05 seconds"),
)


class DeliverySpec(SpecModel):
    model_config = pydantic.ConfigDict(
        alias_generator=None,
        json_schema_extra={_RULES: [{"rule": rule, "message": message} for rule, message in _DELIVERY_RULES]},
    )

    retries_with_no_delay: _Count | None = Field(default=None, description="Number of immediate retries.")
    minimum_delay_retries: _Count | None = Field(
        default=None, description="Number of retries at the minimum delay, before the backoff."
    )
    minimum_delay: _Seconds | None = Field(default=None, description="Seconds; the first delay of the backoff.")
    maximum_delay: _Seconds | None = Field(default=None, description="Seconds; the last delay of the backoff.")
    maximum_delay_retries: _Count | None = Field(
        default=None, description="Number of retries at the maximum delay, after the backoff."
    )
    retry_backoff_function: Literal["linear", "arithmetic", "geometric", "exponential"] | None = Field(
        default=None, description="How delays grow from the minimum to the maximum."
    )
    ignore_subscription_override: bool | None = Field(
        default=None,
        description="Whether a topic's policy overrides those of its subscriptions; has no effect in a SyncRule.",
    )
    backoff_retries: _Count | None = Field(default=None, description="Number of retries in the backoff.")
    retries_max: _Count | None = Field(
        default=None, description="Maximum number of retries, whatever the other fields say; then the object is parked."
    )
    jitter: Literal["none", "full", "equal", "decorrelated"] | None = Field(
        default=None, description="How delays are randomized."
    )
    seed: int | None = Field(default=None, description="Seed that makes jitter reproducible.")
    total_seconds_max: _Seconds | None = Field(default=None, description="No retry after this many seconds of waiting.")
    compatibility: Literal["zaqar", "sns"] | None = Field(
        default=None, description="The product whose numbers and limits apply."
    )
    ack_timeout: Annotated[float, Field(ge=0.05, le=3600)] | None = Field(
        default=None, description="Seconds to wait for an ack before the first delay starts."
    )

    @pydantic.model_validator(mode="after")
    def _check(self) -> Self:
        self.policy()
        return self

    def policy(self) -> NodeDelivery:
        """The policy, with the hub's defaults for unset fields.  Raises ``mistakes.Wrong``."""
        return NodeDelivery(**self.model_dump(exclude_none=True))


RECORDS = frozenset(("ObjectSync", "ClusterObjectSync", "NodeSync"))
"""Kinds of ``fairlead.dev`` written once per delivered object: if they were delivered, they would multiply forever."""
_API_VERSION = r"^([a-z0-9]([-a-z0-9.]*[a-z0-9])?/)?[a-z0-9]([-a-z0-9]*[a-z0-9])?$"
_KIND = r"^[A-Za-z]([-A-Za-z0-9]*[A-Za-z0-9])?$"
_DELIVERY = "How a failed delivery is retried; absent fields take the hub's defaults."
_PRIORITY = "Priority; 0 is sent first, the default is 5."


class ResourceEntry(SpecModel):
    model_config = closed(
        (
            "!has(self.select) || self.select != 'bound' || (self.apiVersion == 'v1' && self.kind == 'Pod')",
            "only Pods are bound to nodes; use referenced or all",
        ),
        (
            "!(self.apiVersion.startsWith('fairlead.dev/') && self.kind in ['ObjectSync', 'ClusterObjectSync',"
            " 'NodeSync'])",
            "delivery records cannot be delivered: each would need a record of its own",
        ),
        (
            "!has(self.statusFromEdge) || !self.statusFromEdge || !self.apiVersion.startsWith('fairlead.dev/')",
            "only the hub writes the status of fairlead.dev kinds",
        ),
    )

    api_version: Annotated[str, like(_API_VERSION, "is not an apiVersion such as v1 or apps/v1")] = Field(
        description="Group and version of the kind, as in a manifest.",
        min_length=1,
        max_length=317,
        json_schema_extra={"pattern": _API_VERSION},
    )
    kind: Annotated[str, like(_KIND, "is not a kind such as ConfigMap")] = Field(
        description="The kind, as in a manifest.",
        min_length=1,
        max_length=63,
        json_schema_extra={"pattern": _KIND},
    )
    namespaces: list[Annotated[str, Field(max_length=63)]] | None = Field(
        default=None, max_length=1024, description="Names of namespaces; all if absent."
    )
    label_selector: LabelSelector | None = Field(default=None, description=SELECTOR)
    select: Literal["bound", "referenced", "all"] = Field(
        default="all",
        description=(
            "bound: Pods bound to the node by spec.nodeName; referenced: objects that those Pods mount or name; all:"
            " every object."
        ),
    )
    delivery: DeliverySpec | None = Field(default=None, description=_DELIVERY)
    priority: Priority | None = Field(default=None, description=_PRIORITY)
    status_from_edge: bool | None = Field(
        default=None,
        description="Whether programs on the nodes that hold these objects may write their status; absent: no.",
    )

    @pydantic.model_validator(mode="after")
    def _check(self) -> Self:
        if self.status_from_edge and self.api_version.startswith("fairlead.dev/"):
            raise mistakes.wrong("statusFromEdge", f"only the hub writes the status of {self.kind}")
        if self.select == "bound" and (self.api_version, self.kind) != ("v1", "Pod"):
            raise mistakes.wrong("select", f"only Pods are bound to nodes; use referenced or all for {self.kind}")
        if self.kind in RECORDS and self.api_version.startswith("fairlead.dev/"):
            raise mistakes.wrong(
                "kind", f"{self.kind} records deliveries and cannot be delivered: each would need a record of its own"
            )
        return self


class SyncRuleSpec(SpecModel):
    model_config = closed()

    node_selector: LabelSelector | None = Field(default=None, description=SELECTOR)
    resources: list[ResourceEntry] = Field(
        min_length=1, max_length=256, description="Kinds, and which of their objects."
    )
    delivery: DeliverySpec | None = Field(default=None, description=_DELIVERY)
    priority: Priority | None = Field(default=None, description=_PRIORITY)
