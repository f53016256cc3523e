"""A running server of the toy model."""

import httpx2
import pytest
from serving import serving

from xl_editor.server.app import create_app


@pytest.fixture(scope="session")
def server(editor):
    with serving(create_app({"toy": editor})) as address:
        yield address


@pytest.fixture
def client(server):
    with httpx2.Client(base_url=server, timeout=60) as client:
        yield client
