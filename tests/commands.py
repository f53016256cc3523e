"""The command line within this process: a new one takes seconds to import what it needs."""

import io
import os
import sys
from subprocess import CompletedProcess
from unittest.mock import patch

import pytest

from xl_editor.cli import main


def run_here(*args: str, stdin: str | bytes = b"", cwd=None, **environment: str) -> CompletedProcess:
    """What `subprocess.run` would answer."""
    given = stdin.encode() if isinstance(stdin, str) else stdin
    streams = {
        "stdin": io.TextIOWrapper(io.BytesIO(given)),
        "stdout": io.TextIOWrapper(io.BytesIO()),
        "stderr": io.TextIOWrapper(io.BytesIO(), write_through=True),
    }
    status = None
    with pytest.MonkeyPatch.context() as here, patch.dict(os.environ, environment):
        here.setattr(sys, "argv", ["xl-editor", *args])
        for name, stream in streams.items():
            here.setattr(sys, name, stream)
        if cwd is not None:
            here.chdir(cwd)
        try:
            main()
        except SystemExit as end:
            status = end.code
    streams["stdout"].flush()
    written = [streams[name].buffer.getvalue() for name in ("stdout", "stderr")]
    return CompletedProcess(args, status or 0, *written)
