"""Outcomes of tests as JUnit XML, which CI systems read."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from xml.etree import ElementTree

from nabla.cli.view_tests.run import Outcome
from nabla.errors import MachineFault

_FORBIDDEN = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ufffe\uffff]")
"""Characters that no XML text may have."""


def write_junit(file: Path, outcomes: Sequence[Outcome], root: Path) -> None:
    """Write a suite for each file of tests."""
    suites = ElementTree.Element("testsuites", _counts(outcomes) | {"name": "nabla test"})
    for path in dict.fromkeys(outcome.test.file for outcome in outcomes):
        own = [outcome for outcome in outcomes if outcome.test.file == path]
        shown = str(path.relative_to(root) if path.is_relative_to(root) else path)
        suite = ElementTree.SubElement(suites, "testsuite", _counts(own) | {"name": _clean(shown)})
        for outcome in own:
            case = {"name": _clean(outcome.test.name), "classname": _clean(shown), "file": _clean(shown)}
            element = ElementTree.SubElement(suite, "testcase", case | {"time": f"{outcome.seconds:.3f}"})
            if outcome.verdict != "passed":
                kind = "error" if outcome.verdict == "error" else "failure"
                said = ElementTree.SubElement(element, kind, {"message": _clean(outcome.message.splitlines()[0])})
                said.text = _clean(outcome.message)
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        ElementTree.ElementTree(suites).write(file, encoding="utf-8", xml_declaration=True)
    except OSError as error:
        raise MachineFault(
            "NABLA_WRITE_FAILED", f"the report cannot be written: {error}", place=str(file), remedy="Name another file."
        ) from error


def _counts(outcomes: Sequence[Outcome]) -> dict[str, str]:
    verdicts = [outcome.verdict for outcome in outcomes]
    return {
        "tests": str(len(outcomes)),
        "failures": str(verdicts.count("failed")),
        "errors": str(verdicts.count("error")),
        "time": f"{sum(outcome.seconds for outcome in outcomes):.3f}",
    }


def _clean(text: str) -> str:
    return _FORBIDDEN.sub("�", text)
