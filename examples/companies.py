"""A graph of companies, with rules: who controls whom, kept up to date while shares are bought and sold.

    python examples/companies.py

makes a lake in the folder `companies` of the current one, and draws how a predicate is kept (`companies.svg`).
"""

from __future__ import annotations

from pathlib import Path

import nabla

lake = nabla.open("companies")
names = ["Alder", "Birch", "Cedar", "Dogwood", "Elm", "Fir", "Gorse", "Hazel"]
lake.create_table("company", schema="name STRING", key="name", data=[(name,) for name in names])
lake.create_table(
    "holds",
    schema="owner STRING, company STRING, share INT",
    key=("owner", "company"),
    data=[
        ("Alder", "Birch", 80),
        ("Birch", "Cedar", 60),
        ("Cedar", "Dogwood", 55),
        ("Alder", "Elm", 30),
        ("Fir", "Gorse", 100),
    ],
)

lake.create_rules(
    "control",
    """
    majority(X, Y) :- holds(X, Y, S), S > 50.
    controls(X, Y) :- majority(X, Y).
    controls(X, Y) :- controls(X, Z), majority(Z, Y).
    controlled(Y)  :- controls(_, Y).
    parent(X)      :- company(X), not controlled(X).
    concern(X, count(Y)) :- controls(X, Y), parent(X).
    """,
)
lake.create_constraint("no_circles", rules=":- controls(X, X).")


def concerns() -> dict[str, int]:
    return {row.x: row[1] for row in lake.read("concern").collect()}


assert concerns() == {"Alder": 3, "Fir": 1}

# Alder would like to buy Fir. What would that mean?
with lake.transaction() as tx:
    tx.insert("holds", [("Alder", "Fir", 51)])
    preview = lake.preview(tx)
    print(preview)
    gained = sorted(tuple(row) for row in preview["controls"].inserted)
assert gained == [("Alder", "Fir"), ("Alder", "Gorse")]

report = lake.refresh("controls")
print(report)
assert (report["controls"].inserted, report["controls"].deleted) == (2, 0)
explanation = lake.explain("concern", mode="incremental")  # what the refresh of this predicate will do
lake.refresh()
assert concerns() == {"Alder": 5}

# A circle is refused, with the companies that are in it.
try:
    with lake.transaction() as tx:
        tx.insert("holds", [("Dogwood", "Alder", 90)])
except nabla.Violated as error:
    print(error)
    assert sorted(row[0] for row in error.violations[0].listed) == ["Alder", "Birch", "Cedar", "Dogwood"]

# Birch sells Cedar: everything below it leaves the concern, and nothing else is looked at.
with lake.transaction() as tx:
    tx.update("holds", set={"share": "40"}, where="owner = 'Birch' AND company = 'Cedar'")
report = lake.refresh()
assert (report["controls"].inserted, report["controls"].deleted) == (0, 4)
for turn in report["controls"].rounds:
    print(turn)
assert sorted(row.y for row in lake.ask('controls("Alder", Y)').collect()) == ["Birch", "Fir", "Gorse"]

lake.verify()
Path("companies.svg").write_text(explanation.to_svg(), encoding="utf-8")
