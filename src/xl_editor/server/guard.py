"""What stands before the application: it refuses bodies that are too large or too slow, and names that are not ours."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from xl_editor.server.errors import ApiError

MAX_BODY_BYTES = 1_000_000
BODY_SECONDS = 10.0

# The page comes from here alone, and may be shown by nobody else.
HEADERS = {
    "Cache-Control": "no-cache",  # a page must not mix the modules of two versions
    "Content-Security-Policy": "default-src 'self'; img-src 'self' data:; frame-ancestors 'none'; base-uri 'none'",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}


class Guard:
    """Reads the whole body, within its limits, and hands it on.

    With `hosts`, only who asks for one of these names is answered: so no web site can have its own name point at a
    server that listens for this computer alone, and read its answers (DNS rebinding).
    """

    def __init__(self, app: ASGIApp, hosts: Collection[str], refuse_early: Callable[[str], None]) -> None:
        self.app = app
        self.hosts = hosts
        self.refuse_early = refuse_early  # raises ApiError for a path that cannot be answered now

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message).update(HEADERS)
            await send(message)

        try:
            headers = Headers(scope=scope)
            if self.hosts and _hostname(headers) not in self.hosts:
                raise ApiError(400, f"The header Host must name one of {', '.join(self.hosts)}.", kind="bad_host")
            self.refuse_early(scope["path"])
            body = await asyncio.wait_for(_read(headers, receive), BODY_SECONDS)
        except asyncio.TimeoutError:
            error = ApiError(408, f"The body must arrive within {BODY_SECONDS:g} s.")
            await error.response()(scope, receive, send_with_headers)
            return
        except ApiError as refusal:
            await refusal.response()(scope, receive, send_with_headers)
            return
        if body is None:
            return
        first: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

        async def receive_again() -> Message:
            return first.pop() if first else await receive()

        await self.app(scope, receive_again, send_with_headers)


def _hostname(headers: Headers) -> str:
    """The name without its port; an IPv6 address without its brackets."""
    host = headers.get("host", "").lower()
    return host[1 : host.find("]")] if host.startswith("[") else host.split(":", 1)[0]


async def _read(headers: Headers, receive: Receive) -> bytes | None:
    """The body; None if the client left meanwhile."""
    announced = headers.get("content-length", "0")
    if announced.isdigit() and int(announced) > MAX_BODY_BYTES:
        raise _too_large()
    body = bytearray()
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            return None
        body += message.get("body", b"")
        if len(body) > MAX_BODY_BYTES:
            raise _too_large()
        if not message.get("more_body"):
            return bytes(body)


def _too_large() -> ApiError:
    return ApiError(413, f"A body may have {MAX_BODY_BYTES:,} bytes.")
