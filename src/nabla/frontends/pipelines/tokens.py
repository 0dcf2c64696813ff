"""Tokens of Spark SQL, read from left to right."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from sqlglot.tokens import Token, TokenType

from nabla.errors import NablaError

_DEPTH = {TokenType.L_PAREN: 1, TokenType.R_PAREN: -1, TokenType.L_BRACKET: 1, TokenType.R_BRACKET: -1}
_QUOTED = {TokenType.IDENTIFIER, TokenType.STRING}


def split_at(tokens: Sequence[Token], separator: TokenType) -> Iterator[list[Token]]:
    """The runs of tokens between separators that stand outside of parentheses; empty runs are left out."""
    run: list[Token] = []
    depth = 0
    for token in tokens:
        depth += _DEPTH.get(token.token_type, 0)
        if token.token_type == separator and (depth == 0 or separator == TokenType.SEMICOLON):
            if run:
                yield run
            run = []
        else:
            run.append(token)
    if run:
        yield run


def word(token: Token) -> str:
    """A keyword in capitals, its parts separated by one space; nothing for quoted text."""
    return "" if token.token_type in _QUOTED else " ".join(token.text.upper().split())


class TokenReader:
    """Reads tokens of a text. `remedy` is the advice of its errors."""

    def __init__(self, tokens: Sequence[Token], text: str, file: str, remedy: str) -> None:
        self.tokens = tokens
        self.text = text
        self.file = file
        self.remedy = remedy
        self.at = 0
        self.line = tokens[0].line if tokens else 1

    @property
    def ended(self) -> bool:
        return self.at >= len(self.tokens)

    def peek(self) -> str:
        return "" if self.ended else self.tokens[self.at].text.upper()

    def next(self, what: str) -> Token:
        if self.ended:
            raise self.wrong(f"the statement ends before {what}")
        self.at += 1
        return self.tokens[self.at - 1]

    def skip(self, *words: str, ahead: bool = False) -> bool:
        """Pass over these words if they come next. With `ahead`, pass over all but the last one."""
        found = tuple(word(token) for token in self.tokens[self.at : self.at + len(words)])
        if found == words:
            self.at += len(words) - (1 if ahead else 0)
            return True
        return False

    def expect(self, *words: str) -> None:
        if not self.skip(*words):
            raise self.wrong(f"{' '.join(words)} is expected, and not {self.peek() or 'the end'}")

    def comes(self, *words: str) -> bool:
        """Whether these words come next."""
        return tuple(word(token) for token in self.tokens[self.at : self.at + len(words)]) == words

    def name(self) -> tuple[str, ...]:
        parts = [self.next("a name").text]
        while self.skip("."):
            parts.append(self.next("a name").text)
        return tuple(parts)

    def parenthesized(self) -> list[Token]:
        """The tokens inside the parentheses that open here, or nothing where none do."""
        if self.peek() != "(" or word(self.tokens[self.at]) != "(":
            return []
        depth, start = 0, self.at
        while True:
            token = self.next("a closing parenthesis")
            depth += {TokenType.L_PAREN: 1, TokenType.R_PAREN: -1}.get(token.token_type, 0)
            if depth == 0:
                return list(self.tokens[start + 1 : self.at - 1])

    def until(self, *ends: tuple[str, ...]) -> str:
        """The text up to one of these sequences of words, outside of parentheses, or to the end."""
        start, depth = self.at, 0
        while not self.ended and not (depth == 0 and any(self.comes(*end) for end in ends)):
            depth += _DEPTH.get(self.tokens[self.at].token_type, 0)
            self.at += 1
        return self.text_of(self.tokens[start : self.at])

    def rest(self, what: str) -> str:
        first = self.next(what)
        self.at = len(self.tokens)
        return self.text[first.start : self.tokens[-1].end + 1]

    def text_of(self, tokens: Sequence[Token]) -> str:
        return self.text[tokens[0].start : tokens[-1].end + 1] if tokens else ""

    @property
    def place(self) -> str:
        return f"{self.file}, line {self.line}"

    def wrong(self, what: str) -> NablaError:
        return NablaError("NABLA_SQL_SYNTAX", what, place=self.place, remedy=self.remedy)
