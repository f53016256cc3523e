"""Listening: the application under uvicorn."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import uvicorn

from xl_editor.editor import Editor
from xl_editor.server.app import create_app

MAX_CONNECTIONS = 1024
IDLE_SECONDS = 5  # that a connection is kept for the next request


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
    app = create_app(editors, max_waiting=max_waiting, api_key=api_key, origins=origins)
    shown = f"[{host}]" if ":" in host else host
    print(f"XL-Editor ({', '.join(editors)}) at http://{shown}:{port}/docs. Ctrl-C ends it.", flush=True)
    uvicorn.run(
        app,
        host=host,
        port=port,
        log_level="warning",
        http="h11",
        ws="none",
        limit_concurrency=MAX_CONNECTIONS,
        timeout_keep_alive=IDLE_SECONDS,
    )
