"""The pages of the console as HTML: what a server sends and what `nabla page` writes are made here."""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any
from urllib.parse import quote as quote_url

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from nabla.console import words
from nabla.console.advice import Advisor
from nabla.console.commits import Commits, total
from nabla.console.details import details
from nabla.console.highlight import highlight
from nabla.console.overview import Overviews
from nabla.console.plots import history_plot, timeline
from nabla.lake.context import LakeContext
from nabla.lake.running import running_runs

SHOWN_REFRESHES = 300


@dataclass(frozen=True)
class Allowed:
    """What a console may do beside reading: refresh and verify views, run queries. Static pages do nothing."""

    refresh: bool = False
    query: bool = False
    live: bool = True


class Links:
    """Addresses of pages: those of a server, or of files, relative to the page that has the link."""

    def __init__(self, static: bool, depth: int = 0) -> None:
        self._static = static
        self._up = "../" * depth

    def page(self, name: str) -> str:
        """A page of the console; the lake's has no name."""
        if self._static:
            return f"{self._up}{name or 'index'}.html"
        return f"/{name}"

    def object(self, name: str) -> str:
        return self.page(f"object/{quote_url(name, safe='')}")

    def asset(self, name: str) -> str:
        """A file of the console. A browser keeps it until it changes, by which its address changes, too."""
        return f"{self._up}assets/{name}" if self._static else f"/assets/{name}?{_assets_mark()}"


class Pages:
    """Makes the pages of a lake. Threads may share it."""

    def __init__(self, context: LakeContext, allowed: Allowed, *, static: bool = False) -> None:
        self.context = context
        self.allowed = allowed
        self.commits = Commits(context.log)
        self.overviews = Overviews(context, self.commits)
        self._advisor = Advisor(context, self.commits)
        self._static = static
        self._templates = _environment()

    def lake(self) -> str:
        overview = self.overviews.now()
        return self._render("lake.html", "", overview=overview, data=_script_data(self._graph(0)))

    def object(self, name: str) -> str | None:
        """The page of a table, view or constraint; None if there is none of that name."""
        overview = self.overviews.now()
        found = details(self.context, overview, self.commits, name)
        if found is None:
            return None
        plan = Markup(found.explanation.to_svg()) if found.explanation else None
        return self._render(
            "object.html", "", depth=1, overview=overview, it=found, plan=plan, plot=history_plot(found.refreshes)
        )

    def refreshes(self) -> str:
        overview = self.overviews.now()
        past = self.commits.refreshes()
        return self._render(
            "refreshes.html",
            "refreshes",
            overview=overview,
            past=past[:SHOWN_REFRESHES],
            total=total(past),
            drawing=timeline(past[:SHOWN_REFRESHES]),
            running=self.running(),
        )

    def advice(self) -> str:
        overview = self.overviews.now()
        return self._render("advice.html", "advice", overview=overview, advice=self._advisor.advise(overview))

    def query(self) -> str:
        return self._render("query.html", "query", overview=self.overviews.now())

    def error(self, status: int, title: str, why: str) -> str:
        """A page that says what went wrong. It needs nothing of the lake, which may be what is wrong."""
        return self._render("error.html", "", overview=None, status=status, title=title, why=why)

    def running(self) -> list[dict[str, Any]]:
        """The runs under way, of this process and of others."""
        return [run.to_dict() for run in running_runs(self.context.path)]

    def _graph(self, depth: int) -> dict[str, Any]:
        links = Links(self._static, depth)
        graph = self.overviews.now().to_dict()
        for node in graph["nodes"]:
            node["href"] = links.object(node["name"])
        return graph

    def _render(self, template: str, page: str, *, depth: int = 0, **values: Any) -> str:
        links = Links(self._static, depth)
        return self._templates.get_template(template).render(
            page=page,
            link=links,
            allowed=self.allowed,
            path=self.context.path,
            now=time.time(),
            **values,
        )


@cache
def _assets_mark() -> str:
    """A text that changes whenever a file of the console does."""
    found = hashlib.sha256()
    for file in sorted((files("nabla.console") / "assets").iterdir(), key=lambda file: file.name):
        found.update(file.read_bytes())
    return found.hexdigest()[:12]


def _environment() -> Environment:
    made = Environment(
        loader=PackageLoader("nabla.console"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    filters: Mapping[str, Callable[..., Any]] = {
        "ago": words.ago,
        "highlight": highlight,
        "moment": words.moment,
        "number": words.number,
        "plural": words.plural_of,
        "seconds": words.seconds,
        "short": words.short,
        "size": words.size,
    }
    made.filters.update(filters)
    made.globals["times"] = words.times
    return made


def _script_data(value: object) -> Markup:
    """JSON for a script element that is data: no text in it can end the element."""
    text = json.dumps(value, ensure_ascii=True, allow_nan=False)
    return Markup(text.replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e"))
