from __future__ import annotations

from datalog_programs import GRAPH, rules

from nabla.frontends.datalog.strata import Stratum


def test_strata_come_after_what_they_read_and_count_negations() -> None:
    assert rules(GRAPH).strata == (
        Stratum(("link",), False, 0),
        Stratum(("path",), True, 0),
        Stratum(("isolated",), False, 1),
    )


def test_mutual_recursion_is_one_group() -> None:
    program = rules(
        "even(0). even(X) :- odd(Y), edge(Y, X). odd(X) :- even(Y), edge(Y, X). both(X) :- even(X), odd(X)."
    )
    assert program.strata == (Stratum(("even", "odd"), True, 0), Stratum(("both",), False, 0))
    assert program.group("odd").inputs == ("edge",)


def test_rules_may_stand_in_any_order() -> None:
    assert rules("a(X) :- b(X). b(X) :- c(X). c(X) :- node(X).").predicates == ("c", "b", "a")


def test_an_aggregate_in_a_body_is_a_hidden_predicate_below() -> None:
    program = rules("busy(X, N) :- node(X), N = count : { edge(X, _) }.")
    assert program.predicates == program.stored == ("busy",)
    assert program.hidden == {"busy_count1"}
    assert program.sources("busy") == ("node", "edge")


def test_an_aggregate_that_a_recursion_reads_is_stored() -> None:
    program = rules("p(X) :- node(X). p(Y) :- p(X), edge(X, Y), N = count : { edge(Y, _) }, N < 3.")
    assert program.stored == ("p_count1", "p")
    assert program.sources("p") == ("node", "edge", "p_count1")


def test_a_long_chain_of_predicates_needs_no_recursion_in_python() -> None:
    chain = "\n".join(f"p{i}(X) :- p{i + 1}(X)." for i in range(1500))
    assert len(rules(chain + "\np1500(X) :- node(X).").strata) == 1501
