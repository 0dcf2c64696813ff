"""`python -m nabla.dev.testing.fuzz_papers [--cases N] [--first SEED] [PROPERTY …]`: the papers' claims on random views.

Views that a property is not about are not counted. It ends with 1 if a claim is false, and names the seed.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from time import perf_counter

from nabla.dev.testing.paper_properties import PROPERTIES, Skipped

CASES = {"detached": 1000}
"""The cases of properties of which each is a sequence of changes; 10,000 of others."""


@dataclass
class Tried:
    """The cases of one property."""

    name: str
    cases: int = 0
    skipped: int = 0
    seconds: float = 0.0
    failures: list[tuple[int, str]] = field(default_factory=list)

    def __str__(self) -> str:
        return f"{self.name:<16} {self.cases:>7,} cases, {len(self.failures)} false, {self.seconds:.0f} s"


def try_property(name: str, cases: int, first: int = 0, most_failures: int = 5) -> Tried:
    """Try a property on seeds from `first` on, until it was about so many of them."""
    check: Callable[[int], None] = PROPERTIES[name]
    tried, seed, began = Tried(name), first, perf_counter()
    while tried.cases < cases and len(tried.failures) < most_failures:
        try:
            check(seed)
            tried.cases += 1
        except Skipped:
            tried.skipped += 1
        except Exception as error:
            tried.cases += 1
            tried.failures.append((seed, f"{type(error).__name__}: {error}"[:300]))
        seed += 1
    tried.seconds = perf_counter() - began
    return tried


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m nabla.dev.testing.fuzz_papers", description=__doc__)
    parser.add_argument("properties", nargs="*", metavar="PROPERTY", help=f"of {', '.join(PROPERTIES)}; default: all")
    parser.add_argument("--cases", type=int, help="cases of each; default: 10000, and 1000 detached views")
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    options = parser.parse_args(arguments)
    if unknown := set(options.properties) - PROPERTIES.keys():
        parser.error(f"no such property: {', '.join(sorted(unknown))}")
    false = 0
    for name in options.properties or PROPERTIES:
        tried = try_property(name, options.cases or CASES.get(name, 10_000), options.first)
        sys.stdout.write(f"{tried}\n")
        for seed, message in tried.failures:
            sys.stdout.write(f"  seed {seed}: {message}\n")
        sys.stdout.flush()
        false += len(tried.failures)
    return 1 if false else 0


if __name__ == "__main__":
    sys.exit(main())
