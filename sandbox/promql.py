"""A subset of PromQL: selectors with matchers, ranges and offsets, functions, aggregations, operators.

Text to values of this module; `promql_eval` computes them. Sentences of mistakes follow
github.com/prometheus/prometheus/promql/parser where tests or people see them.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

AGGREGATIONS = ("sum", "avg", "min", "max", "count")
COMPARISONS = ("==", "!=", ">=", "<=", ">", "<")
_PRECEDENCE = {**dict.fromkeys(COMPARISONS, 1), "+": 2, "-": 2, "*": 3, "/": 3}
_DURATION = re.compile(r"(?:(\d+)y)?(?:(\d+)w)?(?:(\d+)d)?(?:(\d+)h)?(?:(\d+)m)?(?:(\d+)s)?(?:(\d+)ms)?")
_UNITS = (31_536_000.0, 604_800.0, 86_400.0, 3_600.0, 60.0, 1.0, 0.001)
_TOKENS = re.compile(
    r"""\s*(?:
        (?P<duration>\d+(?:ms|[smhdwy])(?:\d+(?:ms|[smhdwy]))*)
      | (?P<number>0x[0-9a-fA-F]+|(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)
      | (?P<string>"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*'|`[^`]*`)
      | (?P<name>[A-Za-z_][A-Za-z0-9_:]*)
      | (?P<symbol>==|!=|=~|!~|>=|<=|[-+*/%^=<>(){}\[\],:@])
    )""",
    re.VERBOSE,
)
_ALTERNATIVES = re.compile(r"(?:[A-Za-z0-9_\-/ :|]|\\[.+*?()\[\]{}^$\-])*")
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "\\": "\\", '"': '"', "'": "'"}


class QueryError(Exception):
    """The query is refused: `kind` is bad_data (it is wrong) or execution (it cannot be computed)."""

    def __init__(self, message: str, kind: str = "bad_data") -> None:
        super().__init__(message)
        self.kind = kind


@dataclass(frozen=True, slots=True)
class Matcher:
    """One label matcher: =, !=, =~, !~ (regular expressions are anchored)."""

    label: str
    operator: str
    value: str

    def matches(self, text: str) -> bool:
        """Whether a label's value satisfies it; an absent label is the empty string."""
        if self.operator in ("=", "!="):
            return (text == self.value) is (self.operator == "=")
        found = re.fullmatch(self.value, text, re.DOTALL) is not None
        return found is (self.operator == "=~")

    def literals(self) -> frozenset[str] | None:
        """The only values that can match, where they can be told from the text: `=`, and `=~"a|b\\.c"`."""
        if self.operator == "=":
            return frozenset({self.value})
        if self.operator != "=~" or not _ALTERNATIVES.fullmatch(self.value):
            return None
        return frozenset(re.sub(r"\\(.)", r"\1", part) for part in self.value.split("|"))


@dataclass(frozen=True, slots=True)
class Selector:
    """`name{…}[range] offset …`; `window` None = an instant selector. Seconds."""

    name: str
    matchers: tuple[Matcher, ...]
    window: float | None = None
    offset: float = 0.0

    def hints(self) -> dict[str, frozenset[str]]:
        """Label → the only values that can match, where they are known."""
        found: dict[str, frozenset[str]] = {}
        for matcher in self.matchers:
            literals = matcher.literals()
            if literals is not None:
                found[matcher.label] = found.get(matcher.label, literals) & literals
        return found


@dataclass(frozen=True, slots=True)
class Number:
    """A scalar."""

    value: float


@dataclass(frozen=True, slots=True)
class Call:
    """A function."""

    name: str
    arguments: tuple[Expression, ...]


@dataclass(frozen=True, slots=True)
class Aggregate:
    """`sum by (…) (…)`; `by` False = without."""

    name: str
    argument: Expression
    by: bool
    labels: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Binary:
    """An operator between two expressions; `as_bool` is the bool modifier of a comparison."""

    operator: str
    left: Expression
    right: Expression
    as_bool: bool = False


Expression = Selector | Number | Call | Aggregate | Binary


def parse_duration(text: str) -> float:
    """`1h30m` in seconds; QueryError where it is none."""
    match = _DURATION.fullmatch(text)
    if not text or match is None:
        raise QueryError(f'parse error: not a valid duration string: "{text}"')
    return sum(int(part or 0) * unit for part, unit in zip(match.groups(), _UNITS, strict=True))


def parse(text: str) -> Expression:
    """The expression; QueryError (bad_data) with the place of the mistake."""
    parser = _Parser(text)
    if parser.peek() == ("end", ""):
        raise QueryError("unknown position: parse error: no expression found in input")
    found = parser.expression(0)
    kind, token = parser.peek()
    if kind != "end":
        parser.refuse(f"unexpected {_words(kind, token)}")
    return found


def _words(kind: str, token: str) -> str:
    return "end of input" if kind == "end" else f'{"identifier" if kind == "name" else kind} "{token}"'


class _Parser:
    def __init__(self, text: str) -> None:
        self._text = text
        self._tokens: list[tuple[str, str, int]] = []
        self._at = 0
        position = 0
        while position < len(text.rstrip()):
            match = _TOKENS.match(text, position)
            if match is None:
                raise QueryError(
                    f"1:{position + 1}: parse error: unexpected character: '{text[position:].lstrip()[:1]}'"
                )
            kind = str(match.lastgroup)
            self._tokens.append((kind, match[kind], match.start(kind)))
            position = match.end()

    def peek(self) -> tuple[str, str]:
        """(kind, text) of the next token."""
        if self._at >= len(self._tokens):
            return ("end", "")
        kind, text, _ = self._tokens[self._at]
        return kind, text

    def refuse(self, why: str) -> None:
        """Raise with the place of the next token."""
        at = self._tokens[self._at][2] if self._at < len(self._tokens) else len(self._text)
        raise QueryError(f"1:{at + 1}: parse error: {why}")

    def _take(self) -> tuple[str, str]:
        token = self.peek()
        self._at += 1
        return token

    def _expect(self, symbol: str, where: str) -> None:
        kind, token = self.peek()
        if token != symbol or kind != "symbol":
            self.refuse(f'unexpected {_words(kind, token)} in {where}, expected "{symbol}"')
        self._at += 1

    def _accept(self, *texts: str) -> str:
        kind, token = self.peek()
        if kind in ("symbol", "name") and token in texts:
            self._at += 1
            return token
        return ""

    def expression(self, lowest: int) -> Expression:
        """Operators that bind tighter than `lowest`, left to right."""
        left = self._unary()
        while True:
            operator = self.peek()[1] if self.peek()[0] == "symbol" else ""
            strength = _PRECEDENCE.get(operator, 0)
            if strength <= lowest:
                return left
            self._at += 1
            as_bool = operator in COMPARISONS and bool(self._accept("bool"))
            if self.peek()[1] in ("on", "ignoring"):
                raise QueryError("the stand-in does not match vectors with vectors", "execution")
            left = Binary(operator, left, self.expression(strength), as_bool)

    def _unary(self) -> Expression:
        if self._accept("-"):
            return Binary("*", Number(-1.0), self._unary())
        if self._accept("+"):
            return self._unary()
        return self._primary()

    def _primary(self) -> Expression:
        kind, token = self._take()
        if kind == "number":
            return Number(float(int(token, 16)) if token.startswith("0x") else float(token))
        if kind == "symbol" and token == "(":
            inner = self.expression(0)
            self._expect(")", "parentheses")
            return inner
        if kind == "symbol" and token == "{":
            self._at -= 1
            return self._selector("")
        if kind == "name":
            return self._named(token)
        self._at -= 1
        self.refuse(f"unexpected {_words(kind, token)}")
        raise AssertionError("refuse raises")

    def _named(self, name: str) -> Expression:
        following = self.peek()[1]
        if name in AGGREGATIONS and following in ("(", "by", "without"):
            return self._aggregate(name)
        if following == "(":
            return self._call(name)
        if name.lower() in ("inf", "nan"):
            return Number(float(name))
        return self._selector(name)

    def _aggregate(self, name: str) -> Expression:
        by, told = True, self._accept("by", "without")
        labels: tuple[str, ...] = ()
        if told:
            by, labels = told == "by", self._labels()
        self._expect("(", "aggregation")
        argument = self.expression(0)
        self._expect(")", "aggregation")
        if not told and (told := self._accept("by", "without")):
            by, labels = told == "by", self._labels()
        return Aggregate(name, argument, by, labels)

    def _labels(self) -> tuple[str, ...]:
        self._expect("(", "grouping opts")
        found = []
        while not self._accept(")"):
            kind, token = self._take()
            if kind != "name":
                self._at -= 1
                self.refuse(f"unexpected {_words(kind, token)} in grouping opts, expected label")
            found.append(token)
            self._accept(",")
        return tuple(found)

    def _call(self, name: str) -> Expression:
        at = self._at
        self._expect("(", "function call")
        arguments = []
        while not self._accept(")"):
            arguments.append(self.expression(0))
            if not self._accept(","):
                self._expect(")", "function call")
                break
        if name not in FUNCTIONS:
            self._at = at - 1
            self.refuse(f'unknown function with name "{name}"')
        return Call(name, tuple(arguments))

    def _selector(self, name: str) -> Expression:
        matchers = []
        if self._accept("{"):
            while not self._accept("}"):
                matchers.append(self._matcher())
                if not self._accept(","):
                    self._expect("}", "label matching")
                    break
        named = [matcher for matcher in matchers if matcher.label == "__name__" and matcher.operator == "="]
        if named and not name:
            name = named[0].value
            matchers.remove(named[0])
        if not name:
            self.refuse("vector selector must contain at least one non-empty matcher")
        window = self._window()
        offset = self._signed_duration() if self._accept("offset") else 0.0
        return Selector(name, tuple(matchers), window, offset)

    def _matcher(self) -> Matcher:
        kind, label = self._take()
        operator = self._accept("=", "!=", "=~", "!~")
        text_kind, text = self.peek()
        if kind != "name" or not operator or text_kind != "string":
            self.refuse(f"unexpected {_words(text_kind, text)} in label matching, expected string")
        self._at += 1
        value = text[1:-1]
        if text[0] != "`":
            value = re.sub(r"\\(.)", lambda match: _ESCAPES.get(match[1], match[0]), value)
        if operator in ("=~", "!~"):
            try:
                re.compile(value)
            except re.error as error:
                raise QueryError(f"1:{self._at}: parse error: error parsing regexp: {error}") from None
        return Matcher(label, operator, value)

    def _window(self) -> float | None:
        if not self._accept("["):
            return None
        window = self._signed_duration()
        if self.peek()[1] == ":":
            raise QueryError("the stand-in does not compute subqueries", "execution")
        self._expect("]", "matrix selector")
        if window <= 0:
            self.refuse("duration must be greater than 0")
        return window

    def _signed_duration(self) -> float:
        sign = -1.0 if self._accept("-") else 1.0
        kind, token = self._take()
        if kind == "duration":
            return sign * parse_duration(token)
        if kind == "number":
            return sign * float(token)
        self._at -= 1
        self.refuse(f"unexpected {_words(kind, token)}, expected duration")
        raise AssertionError("refuse raises")


OVER_TIME = tuple(f"{name}_over_time" for name in ("avg", "min", "max", "sum", "count", "last", "present"))
RATES = ("rate", "increase")
FUNCTIONS = (*OVER_TIME, *RATES, "absent", "time", "vector", "abs", "clamp_max", "clamp_min")
"""What can be computed; any other name is unknown here."""
