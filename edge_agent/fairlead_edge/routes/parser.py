"""Parses tokens into a tree, by recursive descent; each function's docstring is its line of the grammar.

A node keeps the token at which an error about it points.  Depth is bounded (`NESTING_MAX`) and chains of operators are
loops, so no input is too deep for the stack.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import NoReturn

from fairlead_edge.routes import endpoints, tokens
from fairlead_edge.routes.endpoints import Sink, SourcePattern
from fairlead_edge.routes.errors import CompileError, Invalid, error_at
from fairlead_edge.routes.tokens import Token
from fairlead_edge.routes.values import UNDEFINED, Undefined


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
    """`$name`: an application property called `$name`, else the system property; `{$name}`: only the latter."""

    token: Token
    name: str
    escaped: bool


@dataclass(frozen=True, slots=True, eq=False)
class Body:
    """`$body.path`: an application property with exactly this name, else the body; `{$body.path}`: only the latter."""

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
    """Operands joined from left to right by operators of one precedence: `first op second op third ...`.

    It is a chain and not a left-leaning tree, so that a thousand ORs nest no deeper than one.
    """

    first: Node
    steps: tuple[tuple[Token, Node], ...]

    @property
    def token(self) -> Token:
        """The operator that is applied last."""
        return self.steps[-1][0]


@dataclass(frozen=True, slots=True, eq=False)
class Broken:
    """A part without its closing parenthesis; the mistake is recorded, and the part evaluates to undefined."""

    token: Token


Node = Literal | Property | SystemProperty | Body | Call | Unary | Chain | Broken

NESTING_MAX = 50
"""How deep parentheses, function calls and prefix operators may be nested."""

_ESCAPE = re.compile(r"\\(?:u([0-9a-fA-F]{4})|(.))")
_CONSTANTS = {"true": True, "false": False, "null": None, "undefined": UNDEFINED}
_CLOSERS = {
    "&&": "did you mean AND?",
    "==": "'==' is not an operator; use '='",
    "in": "there is no IN; compare with = and join with OR",
    "||": "|| joins texts; did you mean OR?",
}


@dataclass(frozen=True, slots=True)
class ParsedRoute:
    """The parts of a route. `condition` is None without WHERE; `sink` is None if it is unknown, see `errors`."""

    source: SourcePattern
    condition: Node | None
    sink: Sink | None
    errors: list[CompileError]


def parse_condition(text: str, errors: list[CompileError]) -> Node | None:
    """`condition : coalesce? END`. None for an empty one.

    Raises `Invalid` if nothing after the mistake can be trusted.  If the end comes too early (a missing closing
    parenthesis or quote), the mistake is added to `errors`, and the tree is good enough to find others.
    """
    parser = _Parser(text, tokens.tokenize_condition(text), errors, what="condition")
    if parser.next.kind == tokens.END:
        return None
    condition = parser.coalesce()
    parser.expect_end()
    return condition


def parse_route(text: str) -> ParsedRoute:
    """`route : (SELECT "*")? FROM source (WHERE coalesce)? INTO sink END`.  Raises `Invalid`."""
    errors: list[CompileError] = []
    parser = _Parser(text, tokens.tokenize_route(text), errors)
    if parser.take("SELECT"):
        parser.need("*", "SELECT * is all a route can select")
    parser.need("FROM", "a route begins with FROM")
    pattern = parser.source()
    condition = parser.coalesce() if parser.take("WHERE") else None
    if condition is None:
        parser.need("INTO", "INTO and a sink are missing")
    else:
        parser.need("INTO", parser.operator_hint() or "expected an operator, or INTO")
    target = parser.sink()
    parser.expect_end()
    return ParsedRoute(pattern, condition, target, errors)


def parse_source(text: str) -> SourcePattern | None:
    """The source of a route, whatever is wrong after it; None if even that cannot be read."""
    try:
        parser = _Parser(text, tokens.tokenize_route(text), [])
        if parser.take("SELECT"):
            parser.need("*", "")
        parser.need("FROM", "")
        return parser.source()
    except Invalid:
        return None


class _Parser:
    """One token of look-ahead."""

    def __init__(self, text: str, found: list[Token], errors: list[CompileError], what: str = "route") -> None:
        self.text = text
        self.what = what
        self.tokens = found
        self.errors = errors
        self.index = 0
        self.depth = 0

    @property
    def next(self) -> Token:
        return self.tokens[self.index]

    def advance(self) -> Token:
        token = self.next
        if token.kind != tokens.END:
            self.index += 1
        return token

    def take(self, *kinds: str) -> Token | None:
        return self.advance() if self.next.kind in kinds else None

    def need(self, kind: str, otherwise: str) -> Token:
        return self.take(kind) or self.fail(otherwise)

    def fail(self, message: str, token: Token | None = None) -> NoReturn:
        """Stop at `token` (or the next one), because nothing after a syntax error can be trusted."""
        at = token or self.next
        if token is None and at.kind == tokens.UNTERMINATED:
            message = tokens.UNTERMINATED
        elif token is None and at.kind == tokens.UNKNOWN:
            message = f"invalid symbol {at.text!r}"
        elif token is None and at.kind == ")":
            message = "unmatched closing ')'"
        elif token is None:
            start = f"unexpected end of {self.what}" if at.kind == tokens.END else f"syntax error at {at.text!r}"
            message = f"{start}: {message}"
        # The end of input has no character; it is shown one column after the last.
        raise Invalid([*self.errors, error_at(self.text, at.start, max(at.end, at.start + 1), message)])

    def note(self, token: Token, message: str) -> None:
        """Record a mistake after which parsing can continue."""
        self.errors.append(error_at(self.text, token.start, token.end, message))

    def expect_end(self) -> None:
        if self.next.kind == tokens.END:
            return
        hint = "WHERE comes before INTO" if self.next.kind == "WHERE" else self.operator_hint()
        self.fail(hint or "nothing may follow here")

    def operator_hint(self) -> str:
        """Which operator was probably meant by the next token, which cannot continue a condition; "" if none."""
        if self.next.kind == "=" and self.index and self.tokens[self.index - 1].kind == "=":
            return _CLOSERS["=="]
        if self.next.kind == tokens.NUMBER and self.next.text.startswith("-"):
            return f"did you mean - {self.next.text[1:]} with a blank?"
        return _CLOSERS.get(self.next.text.lower(), "")

    # ── conditions, loosest operator first ──

    def coalesce(self) -> Node:
        """coalesce : or ("??" or)*"""
        return self.chain(self.disjunction, "??")

    def disjunction(self) -> Node:
        """or : and (OR and)*"""
        return self.chain(self.conjunction, "OR")

    def conjunction(self) -> Node:
        """and : equality (AND equality)*"""
        return self.chain(self.equality, "AND")

    def equality(self) -> Node:
        """equality : ordering (("=" | "!=" | "<>") ordering)*"""
        return self.chain(self.ordering, "=", "!=")

    def ordering(self) -> Node:
        """ordering : sum (("<" | "<=" | ">" | ">=") sum)*"""
        return self.chain(self.sum, "<", "<=", ">", ">=")

    def sum(self) -> Node:
        """sum : product (("+" | "-" | "||") product)*"""
        return self.chain(self.product, "+", "-", "||")

    def product(self) -> Node:
        """product : prefixed (("*" | "/" | "%") prefixed)*"""
        return self.chain(self.prefixed, "*", "/", "%")

    def prefixed(self) -> Node:
        """prefixed : (NOT | "-") prefixed | primary"""
        operators: list[Token] = []
        while operator := self.take("NOT", "-"):
            operators.append(operator)
            self.enter(operator)
        operand = self.primary()
        for operator in reversed(operators):
            operand = Unary(operator, operand)
        self.depth -= len(operators)
        return operand

    def primary(self) -> Node:
        """primary : literal | property | call | "(" coalesce ")" | "{" "$name" "}" """
        token = self.next
        if token.kind == "(":
            return self.parentheses()
        if token.kind == "{":
            return self.escaped_property()
        if token.kind == tokens.NAME:
            self.advance()
            return self.call(token) if self.next.kind == "(" else Property(token, token.text.lower())
        if token.kind == tokens.SYSTEM:
            self.advance()
            return self.system_property(token, escaped=False)
        if token.kind in (tokens.STRING, tokens.UNTERMINATED, tokens.NUMBER) or token.kind in _CONSTANTS:
            return self.literal()
        if token.kind == tokens.PATH:
            self.fail(f"syntax error at {token.text!r}: brackets are possible only after $body.", token)
        if token.kind in tokens.KEYWORDS:
            self.fail(f"a value is missing; {token.text} is a keyword and cannot name a property")
        before = self.tokens[max(0, self.index - 1)]
        if token.kind == before.kind == "=" and before.end == token.start:
            self.fail(_CLOSERS["=="], Token("=", "==", before.start, token.end))
        return self.fail("expected a value")

    def literal(self) -> Literal:
        """literal : STRING | NUMBER | "true" | "false" | "null" | "undefined" """
        token = self.advance()
        if token.kind == tokens.STRING:
            return Literal(token, unescape(token.text[1:-1]))
        if token.kind == tokens.UNTERMINATED:
            self.note(token, tokens.UNTERMINATED)
            return Literal(token, unescape(token.text[1:]))
        if token.kind == tokens.NUMBER:
            return Literal(token, number(token.text))
        return Literal(token, _CONSTANTS[token.kind])

    def parentheses(self) -> Node:
        """ "(" coalesce ")" """
        opening = self.advance()
        before = len(self.errors)
        self.enter(opening)
        inner = self.coalesce()
        return inner if self.close() else self.broken(opening, before)

    def call(self, name: Token) -> Node:
        """call : NAME "(" (coalesce ("," coalesce)*)? ")" """
        opening = self.advance()
        before = len(self.errors)
        self.enter(opening)
        arguments: list[Node] = []
        if self.next.kind != ")":
            arguments.append(self.coalesce())
            while self.take(","):
                arguments.append(self.coalesce())
        return Call(name, tuple(arguments)) if self.close() else self.broken(opening, before)

    def broken(self, opening: Token, before: int) -> Broken:
        """Of several unclosed parentheses, only the outermost is reported; an unclosed quote explains all of them."""
        if not any(error.message == tokens.UNTERMINATED for error in self.errors):
            del self.errors[before:]
            self.note(opening, "missing closing ')'")
        return Broken(opening)

    def escaped_property(self) -> Node:
        """ "{" SYSTEM "}" """
        self.advance()
        token = self.need(tokens.SYSTEM, "expected $name between the braces")
        self.need("}", "the closing } is missing")
        return self.system_property(token, escaped=True)

    def system_property(self, token: Token, *, escaped: bool) -> Node:
        """SYSTEM : "$name" | "$body.path" """
        if token.text[: len(tokens.BODY_PREFIX)].lower() == tokens.BODY_PREFIX:
            return Body(token, token.text[len(tokens.BODY_PREFIX) :], escaped)
        if "[" in token.text or "]" in token.text:
            self.fail(f"syntax error at {token.text!r}: brackets are possible only after $body.", token)
        return SystemProperty(token, token.text[1:].lower(), escaped)

    def chain(self, operand: Callable[[], Node], *operators: str) -> Node:
        """operand (operator operand)*"""
        first = operand()
        steps: list[tuple[Token, Node]] = []
        while operator := self.take(*operators):
            steps.append((operator, operand()))
        return Chain(first, tuple(steps)) if steps else first

    def enter(self, opening: Token) -> None:
        self.depth += 1
        if self.depth > NESTING_MAX:
            self.fail(f"nested more than {NESTING_MAX} deep", opening)

    def close(self) -> bool:
        """Take the closing parenthesis; returns False if the condition ends without it."""
        self.depth -= 1
        if self.next.kind in (tokens.END, "INTO"):
            return False
        if self.take(")") is None:
            self.fail(self.operator_hint() or "expected an operator, a comma or ')'")
        return True

    # ── routes ──

    def source(self) -> SourcePattern:
        """source : ("/" segment)+"""
        segments: list[str] = []
        while self.take("/"):
            if self.next.kind != tokens.SEGMENT:
                self.fail("expected a name or * after the slash")
            segments.append(self.advance().text)
        if not segments:
            self.fail(f"expected a source such as {endpoints.TELEMETRY}/*")
        return SourcePattern("/" + "/".join(segments))

    def sink(self) -> Sink | None:
        """sink : "$upstream" | NAME "(" STRING ")" """
        token = self.next
        if self.take(tokens.SYSTEM):
            if token.text.lower() == endpoints.UPSTREAM_TEXT:
                return Sink()
            self.note(token, f"unknown sink {token.text!r}; did you mean {endpoints.UPSTREAM_TEXT}?")
            return None
        name = self.need(
            tokens.NAME, f'expected {endpoints.UPSTREAM_TEXT} or {endpoints.BROKERED_TEXT}("/modules/m/inputs/i")'
        )
        upstream = name.text.lower() == "upstream"
        self.need("(", f"did you mean {endpoints.UPSTREAM_TEXT}?" if upstream else "expected ( and an address")
        address = self.need(tokens.STRING, "expected a quoted address such as '/modules/m/inputs/i'")
        self.need(")", "the closing ) is missing")
        if name.text.lower() != endpoints.BROKERED_TEXT.lower():
            self.note(name, f"unknown sink {name.text!r}; did you mean {endpoints.BROKERED_TEXT}?")
            return None
        try:
            return endpoints.brokered(unescape(address.text[1:-1]))
        except ValueError as reason:
            self.note(address, str(reason))
            return None


def unescape(text: str) -> str:
    """`\\u0041`, and a backslash before a quote or a backslash."""
    return _ESCAPE.sub(lambda found: chr(int(found[1], 16)) if found[1] else found[2], text)


def number(text: str) -> float:
    """Every number is a double; what is too large is infinite."""
    if text[:2] in ("0x", "0X"):
        try:
            return float(int(text[2:], 16))
        except OverflowError:
            return float("inf")
    return float(text)
