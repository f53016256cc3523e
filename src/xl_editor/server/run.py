"""Listening: the application under uvicorn."""

from __future__ import annotations

import gc
import socket
import sys
from collections.abc import Mapping, Sequence
from typing import Any

import uvicorn

from xl_editor.editor import Editor
from xl_editor.server.app import create_app

LOOPBACK = ("127.0.0.1", "::1", "localhost")
SWITCH_SECONDS = 0.0005
LISTENING: dict[str, Any] = {
    "http": "h11",
    "ws": "none",
    "limit_concurrency": 1024,  # connections; past that, a plain 503
    "timeout_keep_alive": 5,  # seconds that a connection is kept for the next request
}


def run(
    editors: Mapping[str, Editor],
    host: str,
    port: int,
    *,
    max_waiting: int,
    api_key: str | None,
    origins: Sequence[str],
) -> None:
    """Serve until SIGINT or SIGTERM, and then finish what was accepted."""
    # The event loop must get its turn soon while the worker's thread computes in Python; and whoever collects garbage
    # must not look through all that was loaded, which takes a tenth of a second, in which nobody is answered.
    sys.setswitchinterval(SWITCH_SECONDS)
    gc.collect()
    gc.freeze()
    hosts = LOOPBACK if host in LOOPBACK else ()
    app = create_app(editors, max_waiting=max_waiting, api_key=api_key, origins=origins, hosts=hosts)
    config = uvicorn.Config(app, log_level="warning", **LISTENING)
    family, shown = (socket.AF_INET6, f"[{host}]") if ":" in host else (socket.AF_INET, host)
    try:
        listening = socket.create_server((host, port), family=family, backlog=config.backlog)
    except OSError as error:
        raise OSError(f"Nobody can be served at {shown}:{port}: {error.strerror}.") from None
    print(f"XL-Editor ({', '.join(editors)}) at http://{shown}:{port}/. Ctrl-C ends it.", flush=True)
    with listening:
        # What asyncio does for sockets of its own: an answer must not wait until the client has confirmed its headers.
        listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        uvicorn.Server(config).run(sockets=[listening])
