"""Who may talk to the console: this machine, whoever has the token, and pages of the console itself.

A browser runs pages of strangers, and each may send requests to this machine. So the console answers only to the names that it
is reached by (a stranger's name may be pointed at this machine), accepts actions only from its own pages, and lets them load
nothing but its own files.
"""

from __future__ import annotations

import hmac
import ipaddress
import secrets
from collections.abc import Iterable
from http.cookies import CookieError, SimpleCookie
from urllib.parse import parse_qsl, urlencode

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import PlainTextResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

COOKIE = "nabla_console"
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "font-src 'self'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'"
)
HEADERS = {
    "content-security-policy": POLICY,
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "x-frame-options": "DENY",
    "cache-control": "no-store",
}
READS = ("GET", "HEAD")


def is_loopback(host: str) -> bool:
    """Whether a server at this address is reached from this machine only."""
    if host.lower() == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


def new_token() -> str:
    return secrets.token_urlsafe(24)


class Guard:
    """Refuses requests that must not be answered, and adds headers to all answers.

    Without a token the server is on loopback, and `names` are those that it may be called by. With one, every request needs it:
    first in the address, from which it moves into a cookie.
    """

    def __init__(self, app: ASGIApp, names: Iterable[str], token: str | None) -> None:
        self._app = app
        self._names = frozenset(name.lower() for name in names)
        self._token = token

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            if scope["type"] == "lifespan":
                await self._app(scope, receive, send)
            return

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                if scope["path"].startswith("/assets/") and message["status"] == 200:
                    headers["cache-control"] = "private, max-age=31536000, immutable"
                for name, value in HEADERS.items():
                    headers.setdefault(name, value)
            await send(message)

        refusal = self._refuse(scope)
        await (refusal or self._app)(scope, receive, send_with_headers)

    def _refuse(self, scope: Scope) -> Response | None:
        headers = Headers(scope=scope)
        if self._token is None and _host_name(headers.get("host", "")) not in self._names:
            return PlainTextResponse("This console is not reached by that name.", 421)
        if self._token is not None:
            given = _given_token(scope)
            if given is not None and _same(given, self._token):
                return self._admit(scope)
            if not any(_same(sent, self._token) for sent in (_cookie(headers), _bearer(headers))):
                return PlainTextResponse("Open the address that `nabla ui` printed: it has a token.", 403)
        if scope["method"] not in READS and not _is_own(headers):
            return PlainTextResponse("Actions are for pages of this console.", 403)
        return None

    def _admit(self, scope: Scope) -> Response:
        """Move the token from the address, which people copy and browsers remember, into a cookie."""
        rest = [(name, value) for name, value in _query(scope) if name != "token"]
        path = "/" + str(scope["path"]).lstrip("/")  # "//elsewhere" would be another server
        answer = RedirectResponse(path + (f"?{urlencode(rest)}" if rest else ""), 303)
        assert self._token is not None
        answer.set_cookie(COOKIE, self._token, httponly=True, samesite="strict", secure=scope["scheme"] == "https")
        return answer


def _host_name(host: str) -> str:
    """The name in a Host header, without its port."""
    name = host.rsplit("]", 1)[0] + "]" if host.startswith("[") else host.rsplit(":", 1)[0] if ":" in host else host
    return name.lower()


def _query(scope: Scope) -> list[tuple[str, str]]:
    return parse_qsl(scope.get("query_string", b"").decode("latin-1"), keep_blank_values=True)


def _given_token(scope: Scope) -> str | None:
    return next((value for name, value in _query(scope) if name == "token"), None)


def _cookie(headers: Headers) -> str:
    try:
        found = SimpleCookie(headers.get("cookie", "")).get(COOKIE)
    except CookieError:
        return ""
    return found.value if found else ""


def _bearer(headers: Headers) -> str:
    """The token of a program, such as a scraper of metrics."""
    kind, _, token = headers.get("authorization", "").partition(" ")
    return token if kind.lower() == "bearer" else ""


def _same(given: str, token: str) -> bool:
    return hmac.compare_digest(given.encode(), token.encode())


def _is_own(headers: Headers) -> bool:
    """Whether a request comes from a page of this console: the browser says from which origin, and that it is the same."""
    if headers.get("sec-fetch-site", "same-origin") != "same-origin":
        return False
    origin = headers.get("origin")
    if origin is None or not headers.get("content-type", "").startswith("application/json"):
        return False
    return origin.partition("://")[2].lower() == headers.get("host", "").lower() != ""
