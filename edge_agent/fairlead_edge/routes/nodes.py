"""The tree of a condition. A node keeps the token an error about it points at."""

from __future__ import annotations

from dataclasses import dataclass

from fairlead_edge.routes.tokens import Token
from fairlead_edge.routes.values import Undefined


@dataclass(frozen=True, slots=True, eq=False)
class Literal:
    """A string, number, bool, null (None) or undefined written in the text."""

    token: Token
    value: str | float | bool | Undefined | None


@dataclass(frozen=True, slots=True, eq=False)
class Property:
    """`name`: an application property, in any case."""

    token: Token
    name: str


@dataclass(frozen=True, slots=True, eq=False)
class SystemProperty:
    """`$name`: an application property called `$name`, else the system property; `{$name}`: the latter at once."""

    token: Token
    name: str
    escaped: bool


@dataclass(frozen=True, slots=True, eq=False)
class Body:
    """`$body.path`: an application property with this very text, else the body; `{$body.path}`: the latter at once."""

    token: Token
    path: str
    escaped: bool


@dataclass(frozen=True, slots=True, eq=False)
class Call:
    """`function(arguments)`."""

    token: Token
    arguments: tuple[Node, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Unary:
    """`-` or NOT before an operand."""

    token: Token
    operand: Node


@dataclass(frozen=True, slots=True, eq=False)
class Chain:
    """Operands joined from left to right by operators of one rank: `first op second op third ...`.

    A chain, not a tree leaning left, so that a thousand ORs nest no deeper than one.
    """

    first: Node
    steps: tuple[tuple[Token, Node], ...]

    @property
    def token(self) -> Token:
        """The operator that is applied last."""
        return self.steps[-1][0]


@dataclass(frozen=True, slots=True, eq=False)
class Broken:
    """A part whose closing parenthesis is missing: the mistake is noted, the part stands for undefined."""

    token: Token


Node = Literal | Property | SystemProperty | Body | Call | Unary | Chain | Broken
