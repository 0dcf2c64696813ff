"""Calls of aggregate functions over groups that are made of a view's groups."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

from nabla.algebra import types
from nabla.algebra.build import all_of, arithmetic, coalesce, compare, is_not_null, number, when
from nabla.algebra.calls import Call
from nabla.algebra.expressions import Column, Expr, Literal
from nabla.algebra.names import part_name
from nabla.algebra.normalize import cast
from nabla.algebra.types import decimal_of
from nabla.answer.canonical import is_exact
from nabla.answer.reasons import NoMatch

INTEGERS = ("tinyint", "smallint", "int", "bigint")
SAME_AGAIN = frozenset(("min", "max", "bool_and", "bool_or", "every", "some", "any", "bit_and", "bit_or", "any_value"))
"""Functions whose result over results is their result over the rows: for these, copies of a row do not count."""
INSENSITIVE = frozenset(("min", "max", "bool_and", "bool_or", "every", "some", "any", "bit_and", "bit_or"))

Signature = tuple[object, ...]


def signature(call: Call, form: Callable[[Expr], Expr]) -> Signature:
    """Calls of one signature have one result over the same rows."""
    arguments = tuple(form(a) for a in call.arguments)
    if call.function == "count" and all(isinstance(a, Literal) and a.value is not None for a in arguments):
        arguments = ()
    tests = form(call.filter) if call.filter is not None else None
    function = {"mean": "avg", "every": "bool_and", "some": "bool_or", "any": "bool_or"}.get(
        call.function, call.function
    )
    distinct = call.distinct and call.function not in INSENSITIVE
    return function, arguments, distinct, tests, call.template, call.ignore_nulls, call.cast, call.column.type


@dataclass
class RollUp:
    """Makes the calls of a query from those of a view. `stored` has the view's columns by the signatures of its calls, `form`
    the canonical form of an expression over the tables, `express` an expression over tables as one over the view's keys, or
    raises NoMatch. `calls` are the calls over the view's rows that were made so far, `fired` the rules that were used."""

    stored: Mapping[Signature, Expr]
    form: Callable[[Expr], Expr]
    express: Callable[[Expr], Expr]
    has_value: Callable[[Expr], bool]
    ansi: bool = True
    calls: list[Call] = field(default_factory=list)
    fired: set[str] = field(default_factory=set)

    def value(self, call: Call) -> Expr:
        """The value of a query's call, as an expression over the calls of the roll-up."""
        test = self._test(call)
        if call.distinct or call.function in INSENSITIVE:
            made = self._from_keys(call)
            if made is not None:
                return made
        if call.template or call.ignore_nulls or call.distinct:
            raise NoMatch("AGGREGATE", f"it has not the values that {call} needs")
        match call.function:
            case "count":
                return coalesce(self._count(call, test, "count"), number(0))
            case "sum":
                return self._sum(call, test)
            case "avg" | "mean":
                return self._average(call, test)
            case function if function in SAME_AGAIN - {"any_value"}:
                return self._again(call, test)
        raise NoMatch(
            "AGGREGATE", f"{call.function} of larger groups does not follow from {call.function} of smaller ones"
        )

    # ------------------------------------------------------------ parts

    def _test(self, call: Call) -> Expr | None:
        """The filter of a call over the view's keys; None if there is none, or if the view's own calls have it."""
        if call.filter is None:
            return None
        try:
            return self.express(call.filter)
        except NoMatch:
            return None

    def _find(self, call: Call) -> tuple[Expr, bool] | None:
        """The view's column with the result of a call, and whether its filter is in it."""
        found = self.stored.get(signature(call, self.form))
        if found is not None:
            return found, True
        bare = self.stored.get(signature(replace(call, filter=None), self.form))
        return (bare, False) if bare is not None else None

    def _add(self, call: Call, part: str, function: str, argument: Expr, type_: str, test: Expr | None) -> Expr:
        column = Column(part_name(call.column.name, part), type_)
        self.calls.append(Call(column, function, (argument,), filter=test, cast=True))
        return column.ref

    def _column(self, call: Call, test: Expr | None) -> tuple[Expr, Expr | None]:
        """The view's column for a call, and the filter that is still to be applied."""
        found = self._find(call)
        if found is None or (call.filter is not None and not found[1] and test is None):
            raise NoMatch("AGGREGATE", f"it does not have {call}")
        return found[0], None if found[1] else test

    def _from_keys(self, call: Call) -> Expr | None:
        """A call for which copies do not count, over the view's keys."""
        try:
            arguments = tuple(self.express(a) for a in call.arguments)
            test = self.express(call.filter) if call.filter is not None else None
        except NoMatch:
            return None
        if not all(is_exact(a.type) for a in call.arguments):
            return None
        column = Column(part_name(call.column.name, "keys"), call.column.type)
        self.calls.append(replace(call, column=column, arguments=arguments, filter=test))
        self.fired.add("count distinct from keys" if call.distinct else "extreme of keys")
        return column.ref

    def _count(self, call: Call, test: Expr | None, part: str) -> Expr:
        """The number of rows that a call sees: a count of the view, or its number of rows where the keys tell which count."""
        counted = Call(call.column, "count", call.arguments, filter=call.filter)
        counted = replace(counted, column=Column(call.column.name, "bigint", False))
        try:
            column, left = self._column(counted, test)
        except NoMatch:
            column, left = self._rows_with(call, test)
        self.fired.add("roll up count")
        return self._add(call, part, "sum", column, "bigint", left)

    def _rows_with(self, call: Call, test: Expr | None) -> tuple[Expr, Expr | None]:
        rows = self._rows(call)
        if call.filter is not None and test is None:
            raise NoMatch("AGGREGATE", f"it does not have {call}")
        needed = [a for a in call.arguments if not self.has_value(a)]
        try:
            tests: list[Expr] = [is_not_null(self.express(a)) for a in needed]
        except NoMatch:
            raise NoMatch("AGGREGATE", f"it does not have {replace(call, function='count')}") from None
        tests += [test] if test is not None else []
        return rows, all_of(tests) if tests else None

    def _rows(self, call: Call) -> Expr:
        """The view's column with the number of rows of a group."""
        column = Column(call.column.name, "bigint", False)
        found = self.stored.get(signature(Call(column, "count"), self.form))
        if found is None:
            for known, expr in self.stored.items():
                function, arguments, distinct, tests = known[:4]
                plain = function == "count" and not distinct and tests is None and isinstance(arguments, tuple)
                if plain and all(map(self.has_value, arguments)):  # type: ignore[call-overload]
                    return expr
            raise NoMatch("AGGREGATE", f"it does not have {call}, nor the numbers of its rows")
        return found

    def _total(self, call: Call, test: Expr | None, widen: bool) -> tuple[Expr, str]:
        """The exact sum over the groups, and its type."""
        (argument,) = call.arguments
        decimal = decimal_of(argument.type)
        if argument.type not in INTEGERS and decimal is None:
            raise NoMatch(
                "AGGREGATE", f"a sum of {argument.type} depends on the order of rows, so that {call} is not added up"
            )
        if decimal is not None and not self.ansi and decimal[0] > types.MAX_PRECISION - 10:
            raise NoMatch("AGGREGATE", f"{call} may overflow to NULL, which nothing can be added to")
        result = f"decimal({min(38, decimal[0] + 10)},{decimal[1]})" if decimal else "bigint"
        summed = Call(Column(call.column.name, result), "sum", call.arguments, filter=call.filter)
        try:
            column, left = self._column(summed, test)
        except NoMatch:
            column, left = self._weighted(call, argument, test)
        if not decimal and widen:
            column, result = cast(column, "decimal(20,0)"), "decimal(38,0)"
        self.fired.add("roll up sum")
        return self._add(call, "sum", "sum", column, result, left), result

    def _weighted(self, call: Call, argument: Expr, test: Expr | None) -> tuple[Expr, Expr | None]:
        """A value that all rows of a group share counts as often as the group has rows."""
        if argument.type not in INTEGERS or (call.filter is not None and test is None):
            raise NoMatch("AGGREGATE", f"it does not have {call}")
        try:
            rows, value = self._rows(call), cast(self.express(argument), "bigint")
        except NoMatch:
            raise NoMatch("AGGREGATE", f"it does not have {replace(call, function='sum')}") from None
        self.fired.add("weighted sum")
        return arithmetic(value, "*", rows, "bigint"), test

    def _sum(self, call: Call, test: Expr | None) -> Expr:
        total, _ = self._total(call, test, widen=False)
        return cast(total, call.column.type)

    def _average(self, call: Call, test: Expr | None) -> Expr:
        """The average from the exact sum and the count, rounded as `calculus/partials.py` rounds it."""
        total, _ = self._total(call, test, widen=call.arguments[0].type == "bigint")
        count = self._count(call, test, "count")
        if decimal := decimal_of(call.arguments[0].type):
            precision, scale = min(38, decimal[0] + 10), decimal[1]
            if 38 - (precision - scale) < scale + 6:
                raise NoMatch("AGGREGATE", f"{call} has more digits than a quotient of decimals")
            kinds = types.decimal(precision, scale), types.as_decimal(types.BIGINT)
            quotient = str(types.decimal_result("/", *kinds))
            value: Expr = arithmetic(cast(total, str(kinds[0])), "/", cast(count, str(kinds[1])), quotient)
        else:
            value = arithmetic(cast(total, "double"), "/", count, "double")
        self.fired.add("roll up avg")
        return when(compare(count, ">", number(0)), cast(value, call.column.type))

    def _again(self, call: Call, test: Expr | None) -> Expr:
        column, left = self._column(call, test)
        self.fired.add(f"roll up {call.function}")
        made = Column(part_name(call.column.name, call.function), call.column.type)
        self.calls.append(Call(made, call.function, (column,), filter=left))
        return made.ref
