"""Compiles text to closures: the two entry points of the route language, type checking, and error messages.

Types are checked, and everything that can be decided at compile time is decided here.
"""

from __future__ import annotations

import difflib
import math
from collections.abc import Callable
from dataclasses import dataclass, replace

from fairlead_edge.routes import functions, operators, parser, tokens, values
from fairlead_edge.routes.endpoints import TELEMETRY, Sink, SourcePattern
from fairlead_edge.routes.errors import CompileError, Invalid, error_at
from fairlead_edge.routes.message import RoutedMessage
from fairlead_edge.routes.operators import Combine, Compiled, Run
from fairlead_edge.routes.parser import Body, Broken, Call, Chain, Literal, Node, Property, SystemProperty, Unary
from fairlead_edge.routes.tokens import Token
from fairlead_edge.routes.values import UNDEFINED, Type, Undefined
from fairlead_wire.validation import route_manifest

TEXT_CHARS_MAX = route_manifest.TEXT_CHARS_MAX
"""Longest route or condition; compile time is linear in its length."""
_NEAR_BODY = 0.75
"""How similar a name must be to `body` to be taken for it (difflib's ratio)."""
_HEAD_CHARS_MAX = 8


@dataclass(frozen=True, slots=True)
class Condition:
    """A compiled condition; `run(message)` is True, False or UNDEFINED, and only True matches."""

    text: str
    node: Node | None
    run: Callable[[RoutedMessage], bool | Undefined]


@dataclass(frozen=True, slots=True)
class CompiledRoute:
    """A compiled route."""

    text: str
    source: SourcePattern
    condition: Condition
    sink: Sink

    def matches(self, source: str, message: RoutedMessage) -> bool:
        """Whether this message from `source` takes this route."""
        return self.source.matches(source) and self.condition.run(message) is True


def compile_condition(text: str, source: str = TELEMETRY) -> Condition:
    """Compile a condition as part of a route from `source`. Raises `Invalid`."""
    _check_length(text)
    errors: list[CompileError] = []
    node = parser.parse_condition(text, errors)
    run = compile_tree(text, node, twin_changes=SourcePattern(source).twin_changes, errors=errors)
    if errors:
        raise Invalid(errors)
    return Condition(text, node, run)


def compile_route(text: str) -> CompiledRoute:
    """Compile a whole route. Raises `Invalid` with every mistake, in the types of WHERE and in the sink.

    What only follows from another mistake is left out.
    """
    _check_length(text)
    parsed = parser.parse_route(text)
    errors = parsed.errors
    condition = Condition(text, None, _always)
    if parsed.condition is not None:
        run = compile_tree(text, parsed.condition, twin_changes=parsed.source.twin_changes, errors=errors)
        condition = Condition(text, parsed.condition, run)
    if errors or parsed.sink is None:
        own = [error for error in errors if not error.follows]
        raise Invalid(sorted(own, key=lambda error: (error.line, error.column)))
    return CompiledRoute(text, parsed.source, condition, parsed.sink)


def evaluate_condition(condition: Condition, message: RoutedMessage) -> bool | str:
    """The result for the API: true, false or "undefined"."""
    result = condition.run(message)
    return "undefined" if result is UNDEFINED else result


def _always(_: RoutedMessage) -> bool:
    return True


def _check_length(text: str) -> None:
    if len(text) > TEXT_CHARS_MAX:
        message = f"{len(text)} characters are too many, {TEXT_CHARS_MAX} is the limit"
        raise Invalid([CompileError(line=1, column=1, end_column=2, message=message)])


# ---- error messages: what was found, what is needed, what was probably intended --------------------------------------


def has(compiled: Compiled) -> str:
    """An operand as people see it."""
    if compiled.failed:
        return "nothing valid (see the other mistake)"
    match compiled.node:
        case Property(token=token) | SystemProperty(token=token):
            return f"the property {token.text} (always text)"
        case Literal(token=token):
            return token.text
        case _:
            return compiled.type.value


def _side(compiled: Compiled, which: str) -> str:
    """One side of an operator as a clause; ``which``: left or right."""
    if not compiled.failed:
        match compiled.node:
            case Property(token=token) | SystemProperty(token=token):
                return f"{token.text} is always text"
            case Literal(token=token) if compiled.type in (Type.STRING, Type.NUMBER):
                return f"{token.text} is {compiled.type.value}"
    return f"the {which} side is {has(compiled)}"


def spelled(token: Token) -> str:
    """Keywords in capitals, symbols unchanged."""
    return token.text.upper() if token.kind in values.LOGIC or token.kind == "NOT" else token.text


def operand_message(token: Token, left: Compiled, right: Compiled) -> str:
    """Why the two sides cannot be combined."""
    operator_text = spelled(token)
    given = f"but {_side(left, 'left')} and {_side(right, 'right')}"
    if token.kind in values.ARITHMETIC:
        return f"{operator_text} needs numbers, {given}{as_number_hint([left, right])}"
    if token.kind == "||":
        unlike = {Type.BOOL, Type.NUMBER} & {left.type, right.type}
        return f"|| joins texts, {given}{'; did you mean OR?' if unlike else ''}"
    if token.kind in values.LOGIC:
        return f"{operator_text} needs true or false on both sides, {given}"
    return f"{operator_text} compares two values of the same type, {given}{_comparison_hint(left, right)}"


def as_number_hint(suspects: list[Compiled]) -> str:
    """A hint where a number is needed, for the first operand that is text but may be meant as a number."""
    for each in suspects:
        if isinstance(each.node, Property | SystemProperty):
            return _number_of_property(each.node.token.text)
        if isinstance(each.node, Literal) and isinstance(each.node.value, str):
            number = each.node.value.strip()
            if not math.isnan(functions.number_of(number)):
                return f"; did you mean {number} without quotes?"
    return ""


def _number_of_property(name: str) -> str:
    """A hint for a property used as a number; a minus next to a name is part of the name, which is rarely intended."""
    if name.startswith("-"):
        return f"; did you mean - {name[1:]} with a blank?"
    return _body_hint(name) or f"; did you mean as_number({name})?"


def _body_hint(name: str) -> str:
    """A hint for a property such as `$boddy.x` or `body.x`, which was probably meant as a value of the body."""
    head, _, path = name.removeprefix("$").partition(".")
    if path and len(head) <= _HEAD_CHARS_MAX and difflib.get_close_matches(head.lower(), ["body"], cutoff=_NEAR_BODY):
        return f"; did you mean {tokens.BODY_PREFIX}{path}?"
    return ""


def _comparison_hint(left: Compiled, right: Compiled) -> str:
    for one, other in ((left, right), (right, left)):
        if isinstance(one.node, Property | SystemProperty):
            name = one.node.token.text
            if body := _body_hint(name):
                return body
            if other.type is Type.NUMBER:
                return _number_of_property(name)
            if other.type is Type.BOOL and isinstance(other.node, Literal):
                return f"; did you mean '{other.node.token.text}' in quotes?"
            if other.type is Type.NULL:
                return f"; did you mean is_null({name})?"
            if other.type is Type.UNDEFINED and not other.failed:
                return f"; did you mean is_defined({name})?"
    if {left.type, right.type} == {Type.STRING, Type.NUMBER}:
        return as_number_hint([left, right])
    if {left.type, right.type} == {Type.BOOL, Type.STRING}:
        return "; || joins texts and comparisons do not chain: did you mean AND or OR?"
    return ""


def unary_hint(node: Unary, operand: Compiled) -> str:
    """A hint for `-` or NOT before an operand that it cannot be applied to."""
    if node.token.kind == "-":
        return as_number_hint([operand])
    if isinstance(operand.node, Property | SystemProperty):
        if body := _body_hint(operand.node.token.text):
            return body
        return "; NOT binds tighter than a comparison: did you mean NOT (...)?"
    return ""


def unknown_function(name: str) -> str:
    """The message for a function that does not exist, or not in this context."""
    if name.lower() == functions.TWIN_CHANGE_INCLUDES:
        return f"{name} works only in a route FROM /twinChangeNotifications"
    close = difflib.get_close_matches(name.lower(), functions.NAMES, n=1)
    return f"unknown function {name}{f'; did you mean {close[0]}?' if close else ''}"


# ---- tree to closures ------------------------------------------------------------------------------------------------

ERRORS_MAX = 50
"""At most this many mistakes are reported for one condition."""


def compile_node(text: str, node: Node, *, twin_changes: bool, errors: list[CompileError]) -> Compiled:
    """Check and compile a node; mistakes are added to `errors`, innermost first."""
    return _Compiler(text, twin_changes, errors).compile(node)


def compile_tree(text: str, node: Node | None, *, twin_changes: bool, errors: list[CompileError]) -> Run:
    """Compile a whole condition: True, False or UNDEFINED; an empty condition or a non-boolean is undefined."""
    if node is None:
        return operators.constant(UNDEFINED)
    compiled = compile_node(text, node, twin_changes=twin_changes, errors=errors)
    match compiled.type:
        case Type.BOOL:
            return compiled.run
        case Type.NULL:
            return operators.constant(False)
        case Type.DYNAMIC:
            return operators.to_bool(compiled)
        case _:
            return operators.constant(UNDEFINED)


class _Compiler:
    def __init__(self, text: str, twin_changes: bool, errors: list[CompileError]) -> None:
        self.text = text
        self.twin_changes = twin_changes
        self.errors = errors

    def compile(self, node: Node) -> Compiled:
        match node:
            case Literal(value=value):
                return Compiled(node, _type_of(value), operators.constant(value))
            case Property(name=name):
                return Compiled(node, Type.STRING, operators.application_property(name))
            case SystemProperty(name=name, escaped=escaped):
                return Compiled(node, Type.STRING, operators.system_property(name, escaped))
            case Body():
                return self.body(node)
            case Call():
                return self.call(node)
            case Unary():
                return self.unary(node)
            case Chain():
                return self.chain(node)
            case Broken():
                return Compiled(node, Type.UNDEFINED, operators.constant(UNDEFINED), failed=True)

    def fail(self, node: Node, token: Token, message: str, *operands: Compiled) -> Compiled:
        """Record the mistake; the node then stands for undefined, so its parent may fail too, as in the original."""
        if len(self.errors) < ERRORS_MAX:
            error = error_at(self.text, token.start, token.end, message)
            self.errors.append(replace(error, follows=any(each.failed for each in operands)))
        return Compiled(node, Type.UNDEFINED, operators.constant(UNDEFINED), failed=True)

    def body(self, node: Body) -> Compiled:
        try:
            return Compiled(node, Type.DYNAMIC, operators.body(node.path, node.escaped))
        except ValueError as reason:
            return self.fail(node, node.token, f"not a path into the body: {reason}")

    def unary(self, node: Unary) -> Compiled:
        operand = self.compile(node.operand)
        result = values.unary(node.token.kind, operand.type)
        if result is None:
            wanted = "a number" if node.token.kind == "-" else "true or false"
            message = f"{spelled(node.token)} needs {wanted}, has {has(operand)}{unary_hint(node, operand)}"
            return self.fail(node, node.token, message, operand)
        if node.token.kind == "-":
            return Compiled(node, result, operators.negative(operand))
        if operand.type is Type.NULL:
            return Compiled(node, result, operators.constant(True))
        return Compiled(node, result, operators.negation(operators.to_bool(operand)))

    def chain(self, node: Chain) -> Compiled:
        left = self.compile(node.first)
        if node.token.kind in values.LOGIC:
            return self.logic(node, left)
        steps: list[tuple[Combine, Run]] = []
        operands = [left]
        kind = left.type
        failed = left.failed
        for token, right_node in node.steps:
            right = self.compile(right_node)
            operands.append(right)
            result = values.binary(token.kind, kind, right.type)
            if result is None:
                so_far = left if token is node.steps[0][0] else Compiled(node, kind, left.run, failed)
                self.fail(node, token, operand_message(token, so_far, right), so_far, right)
                kind, failed = Type.UNDEFINED, True
                continue
            steps.append((operators.combine(token.kind, kind, right.type, result), right.run))
            kind, failed = result, False
        if failed:
            return Compiled(node, Type.UNDEFINED, operators.constant(UNDEFINED), failed=True)
        if kind is Type.STRING and len(steps) > 1 and all(token.kind == "||" for token, _ in node.steps):
            return Compiled(
                node, kind, operators.apply(functions.concat, [operators.to_text(each) for each in operands])
            )
        if len(steps) == 1:
            symbol, right_node = node.steps[0][0].kind, node.steps[0][1]
            if symbol in values.COMPARISON and isinstance(right_node, Literal):
                against = operators.compare_with_literal(symbol, left, right_node)
                if against is not None:
                    return Compiled(node, kind, against)
            return Compiled(node, kind, operators.pair(left.run, *steps[0], node.steps[0][1]))
        return Compiled(node, kind, operators.fold(left.run, steps))

    def logic(self, node: Chain, first: Compiled) -> Compiled:
        """AND and OR: false (true) wins over undefined; a null decides an AND, and is ignored in an OR."""
        operands = [first]
        kind, failed = first.type, False
        for token, right_node in node.steps:
            right = self.compile(right_node)
            result = values.binary(token.kind, kind, right.type)
            if result is None:
                so_far = first if token is node.steps[0][0] else Compiled(node, kind, first.run, failed)
                self.fail(node, token, operand_message(token, so_far, right), so_far, right)
                failed = True
            operands.append(right)
            kind = result or Type.UNDEFINED
        if failed:
            return Compiled(node, Type.UNDEFINED, operators.constant(UNDEFINED), failed=True)
        if kind is Type.NULL:
            return Compiled(node, kind, operators.constant(None))
        runs = [operators.to_bool(each) for each in operands if each.type is not Type.NULL]
        return Compiled(node, kind, operators.decide(runs, winner=node.token.kind == "OR"))

    # ── functions ──

    def call(self, node: Call) -> Compiled:
        name = node.token.text.lower()
        if name == functions.TWIN_CHANGE_INCLUDES and self.twin_changes:
            return self.twin_change_includes(node)
        arguments = [self.compile(argument) for argument in node.arguments] if name in functions.NAMES else []
        if name in functions.TYPE_TESTS:
            return self.type_test(node, name, arguments)
        if name == functions.AS_NUMBER:
            return self.as_number(node, arguments)
        if name in functions.BUILT_IN:
            return self.built_in(node, functions.BUILT_IN[name], arguments)
        return self.fail(node, node.token, unknown_function(node.token.text))

    def bad_arguments(self, node: Call, usage: str, arguments: list[Compiled], wanted: Type | None = None) -> Compiled:
        given = ", ".join(has(argument) for argument in arguments) or "nothing"
        suspects = [argument for argument in arguments if wanted and not values.accepts(wanted, argument.type)]
        hint = as_number_hint(suspects) if wanted is Type.NUMBER else ""
        message = f"expected {usage}, not {node.token.text} of {given}{hint}"
        return self.fail(node, node.token, message, *arguments)

    def type_test(self, node: Call, name: str, arguments: list[Compiled]) -> Compiled:
        if len(arguments) != 1:
            return self.bad_arguments(node, f"{name}(value)", arguments)
        test, run = functions.TYPE_TESTS[name](arguments[0].type), arguments[0].run
        return Compiled(node, Type.BOOL, lambda message: test(run(message)))

    def as_number(self, node: Call, arguments: list[Compiled]) -> Compiled:
        if len(arguments) != 1 or arguments[0].type not in (Type.STRING, Type.NUMBER, Type.DYNAMIC):
            return self.bad_arguments(node, "as_number(text)", arguments)
        run = arguments[0].run
        return Compiled(node, Type.NUMBER, lambda message: functions.number_of(run(message)))

    def built_in(self, node: Call, function: functions.Function, arguments: list[Compiled]) -> Compiled:
        if not function.takes(len(arguments)):
            return self.bad_arguments(node, function.usage, arguments)
        runs: list[Run] = []
        for index, argument in enumerate(arguments):
            wanted = function.parameter(index)
            if wanted is None or not values.accepts(wanted, argument.type):
                return self.bad_arguments(node, function.usage, arguments, wanted)
            runs.append(operators.to_number(argument) if wanted is Type.NUMBER else operators.to_text(argument))
        return Compiled(node, function.result, operators.apply(function.run, runs))

    def twin_change_includes(self, node: Call) -> Compiled:
        if len(node.arguments) != 1 or not isinstance(node.arguments[0], Property):
            return self.fail(node, node.token, "expected one path, such as twin_change_includes(properties.reported.x)")
        path = node.arguments[0].token.text
        prefix = next((known for known in _TWIN_PREFIXES if path.lower().startswith(known)), None)
        if prefix is None:
            return self.fail(node, node.token, f"a path here begins with {', '.join(_TWIN_PREFIXES)}; not {path!r}")
        try:
            steps = operators.parse(prefix + path[len(prefix) :])
        except ValueError as reason:
            return self.fail(node, node.token, f"not a path into the twin: {reason}")
        return Compiled(node, Type.BOOL, operators.includes(steps))


_TWIN_PREFIXES = ("properties.reported.", "properties.desired.", "tags.")


def _type_of(value: object) -> Type:
    match value:
        case bool():
            return Type.BOOL
        case float():
            return Type.NUMBER
        case str():
            return Type.STRING
        case None:
            return Type.NULL
        case _:
            return Type.UNDEFINED
