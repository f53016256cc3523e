"""Servers as a user meets them: an application in a thread, or the command in a process of its own."""

import socket
import subprocess
import sys
import threading
import time
from contextlib import contextmanager

import httpx2
import uvicorn

from xl_editor.server.run import LISTENING


@contextmanager
def serving(app, **settings):
    """The address of the running application, which listens as the command does but for these settings."""
    listening = socket.create_server(("127.0.0.1", 0))
    server = uvicorn.Server(uvicorn.Config(app, log_level="error", **{**LISTENING, **settings}))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]}, daemon=True)
    thread.start()
    while not server.started:
        time.sleep(0.01)
    try:
        yield f"http://127.0.0.1:{listening.getsockname()[1]}"
    finally:
        server.should_exit = True
        thread.join()


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as free:
        return free.getsockname()[1]


@contextmanager
def running(model, port):
    """`xl-editor serve`, once it answers: its address and its process, which may be ended in any way.

    Without a model, as it comes: with all that are bundled.
    """
    command = [sys.executable, "-m", "xl_editor.cli", "serve", "--port", str(port)]
    command += [] if model is None else ["--model", str(model)]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    address = f"http://127.0.0.1:{port}"
    try:
        deadline = time.monotonic() + 60
        while not is_up(address):
            assert process.poll() is None
            assert time.monotonic() < deadline
            time.sleep(0.1)
        yield address, process
    finally:
        process.kill()
        process.wait()


def is_up(address):
    try:
        return httpx2.get(f"{address}/readyz").status_code == 200
    except httpx2.TransportError:
        return False
