"""The console as a web server: pages, live updates, and the actions that were allowed."""

from __future__ import annotations

import errno
import json
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING, Any

import uvicorn
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, PlainTextResponse, Response, StreamingResponse
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles

from nabla.console import actions
from nabla.console.guard import Guard, is_loopback, new_token
from nabla.console.live import Pulse
from nabla.console.pages import Allowed, Pages
from nabla.errors import NablaError
from nabla.lake.context import HasContext

if TYPE_CHECKING:
    from nabla.lake.monitor.metrics import Metrics

LARGEST_BODY = 64_000
_LOCAL_NAMES = ("127.0.0.1", "localhost", "[::1]")


def make_app(
    lake: HasContext, allowed: Allowed, names: tuple[str, ...] = _LOCAL_NAMES, token: str | None = None
) -> Starlette:
    """The console of a lake. `names` are those that a browser on this machine may call it by; with a `token` every request
    needs it, and any name will do."""
    pages = Pages(lake.context, allowed)
    pulse = Pulse(pages)
    routes = [
        Route("/", _page(pages.lake)),
        Route("/object/{name}", _object(pages)),
        Route("/refreshes", _page(pages.refreshes)),
        Route("/advice", _page(pages.advice)),
        Route("/events", _events(pulse)),
        Mount("/assets", StaticFiles(packages=[("nabla.console", "assets")])),
    ]
    if allowed.refresh:
        for name, action in (("refresh", actions.refresh), ("verify", actions.verify)):
            routes.append(Route(f"/actions/{name}", _on_views(pages, action), methods=["POST"]))
    if allowed.query:
        routes += [
            Route("/query", _page(pages.query)),
            Route("/actions/query", _query(pages), methods=["POST"]),
        ]

    metrics = _metrics(lake)
    if metrics is not None:
        routes.append(Route("/metrics", lambda _: PlainTextResponse(metrics.text())))

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        await run_in_threadpool(_warm, pages)
        yield
        if metrics is not None:
            metrics.cancel()

    failed: dict[Any, Any] = {HTTPException: partial(_refused, pages), NablaError: partial(_failed, pages)}
    guard = Middleware(Guard, names=names, token=token)
    app = Starlette(routes=routes, middleware=[guard], exception_handlers=failed, lifespan=lifespan)
    app.state.pulse = pulse
    return app


class ConsoleServer:
    """The server of a console. `url` is known before it runs, with the token if it needs one."""

    def __init__(
        self, lake: HasContext, host: str = "127.0.0.1", port: int = 4040, allowed: Allowed | None = None
    ) -> None:
        token = None if is_loopback(host) else new_token()
        self._socket = _listen(host, port)
        name, number = self._socket.getsockname()[:2]
        shown = f"[{name}]" if ":" in name else name
        if name in ("0.0.0.0", "::"):
            shown = socket.gethostname()
        self.url = f"http://{shown}:{number}/" + (f"?token={token}" if token else "")
        names = (*_LOCAL_NAMES, shown.lower(), host.lower())
        app = make_app(lake, allowed or Allowed(), names, token)
        config = uvicorn.Config(app, log_level="warning", timeout_graceful_shutdown=3, server_header=False)
        self._server = uvicorn.Server(config)
        app.state.pulse.is_over = lambda: self._server.should_exit

    def run(self) -> None:
        """Serve until a signal or `stop` ends it."""
        self._server.run(sockets=[self._socket])

    def stop(self) -> None:
        self._server.should_exit = True


def _listen(host: str, port: int) -> socket.socket:
    try:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        return socket.create_server((host.strip("[]"), port), family=family)
    except OSError as error:
        taken = error.errno == errno.EADDRINUSE
        raise NablaError(
            "NABLA_PORT",
            "the port is taken" if taken else f"cannot listen: {error.strerror or error}",
            place=f"{host}:{port}",
            remedy="Choose another with --port." if taken else "Choose another with --host or --port.",
        ) from None


def _metrics(lake: HasContext) -> Metrics | None:
    """The lake's metrics, if the package for them is installed."""
    try:
        from nabla.lake.monitor.metrics import Metrics
    except ImportError:
        return None
    return Metrics([lake.context])


def _warm(pages: Pages) -> None:
    """Look at the lake before anybody asks. What is wrong with it is said by its pages."""
    try:
        pages.overviews.now()
    except NablaError:
        return


def _page(make: Callable[[], str]) -> Callable[[Request], Response]:
    def show(_: Request) -> Response:
        return HTMLResponse(make())

    return show


def _object(pages: Pages) -> Callable[[Request], Response]:
    def show(request: Request) -> Response:
        name = request.path_params["name"]
        found = pages.object(name)
        if found is None:
            raise HTTPException(404, f'there is no table, view or constraint "{name}"')
        return HTMLResponse(found)

    return show


def _events(pulse: Pulse) -> Callable[[Request], Any]:
    async def stream(request: Request) -> Response:
        known = request.query_params.get("version", "")
        version = int(known) if known.isdecimal() else -1
        return StreamingResponse(pulse.events(version), media_type="text/event-stream")

    return stream


def _on_views(pages: Pages, action: Callable[..., dict[str, Any]]) -> Callable[[Request], Any]:
    async def act(request: Request) -> Response:
        said = await _body(request)
        names = said.get("names", [])
        if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
            raise HTTPException(400, "names has to be a list of texts")
        return JSONResponse(await run_in_threadpool(action, pages.context, tuple(names)))

    return act


def _query(pages: Pages) -> Callable[[Request], Any]:
    async def act(request: Request) -> Response:
        text = (await _body(request)).get("sql")
        if not isinstance(text, str):
            raise HTTPException(400, "sql has to be a text")
        return JSONResponse(await run_in_threadpool(actions.query, pages.context, text))

    return act


async def _body(request: Request) -> dict[str, Any]:
    """The JSON object of a request, if it is one and of a reasonable size."""
    content = b""
    async for piece in request.stream():
        content += piece
        if len(content) > LARGEST_BODY:
            raise HTTPException(413, "too long")
    try:
        said = json.loads(content or b"{}")
    except ValueError:
        raise HTTPException(400, "this is not JSON") from None
    if not isinstance(said, dict):
        raise HTTPException(400, "this is not a JSON object")
    return said


def _wants_json(request: Request) -> bool:
    return request.url.path.startswith("/actions/")


def _refused(pages: Pages, request: Request, error: HTTPException) -> Response:
    titles = {404: "Nothing here", 405: "Not allowed"}
    if _wants_json(request):
        why = (
            "actions are off: start with --allow-refresh or --allow-query" if error.status_code == 404 else error.detail
        )
        return JSONResponse({"error": {"code": "", "message": why, "remedy": ""}}, error.status_code)
    title = titles.get(error.status_code, "Refused")
    return HTMLResponse(pages.error(error.status_code, title, error.detail), error.status_code)


def _failed(pages: Pages, request: Request, error: NablaError) -> Response:
    if _wants_json(request):
        said = {"code": error.code, "message": error.message, "place": error.place, "remedy": error.remedy}
        return JSONResponse({"error": said}, 422)
    return HTMLResponse(pages.error(500, "The lake cannot be shown", str(error)), 500)
