"""Whatever is sent is answered as the schema says, and never by a 500; however many send it."""

import json
import socket
from urllib.parse import urlsplit

import httpx2
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from serving import serving

from xl_editor.server.app import create_app

schemathesis = pytest.importorskip("schemathesis", reason="fuzzing needs schemathesis")
# What the editor refuses (a text without words, a style that the model has not) no schema can tell.
from schemathesis.specs.openapi.checks import positive_data_acceptance  # noqa: E402

# The schema is the same whatever the models are.
SCHEMA = schemathesis.openapi.from_dict(create_app({}).openapi())
OPERATIONS = [(path, method) for path in SCHEMA for method in SCHEMA[path]]
PATIENT = settings(deadline=None, suppress_health_check=list(HealthCheck))


@pytest.fixture(scope="module")
def server(editor):
    with serving(create_app({"toy": editor})) as address:
        yield address


def answerable(case):
    """What the schema cannot say: which models and styles there are, that there are words, and a blank to fill."""
    if isinstance(case.body, dict):
        case.body.pop("model", None)
        case.body.pop("source", None)
        case.body |= {name: "positive" for name in ("style", "to") if case.body.get(name) is not None}
        if isinstance(case.body.get("text"), str):
            case.body["text"] = "words " + case.body["text"][:80] + " [_]"
    return case


def fuzz(server, path, method, max_examples):
    operation = SCHEMA[path][method]
    allowed = operation.as_strategy(generation_mode=schemathesis.GenerationMode.POSITIVE)
    cases = [allowed, allowed.map(answerable)]
    if operation.body:  # without arguments nothing can be wrong with them
        cases.append(operation.as_strategy(generation_mode=schemathesis.GenerationMode.NEGATIVE))

    @settings(PATIENT, max_examples=max_examples)
    @given(st.one_of(cases))
    def every_case_is_answered(case):
        case.call_and_validate(base_url=server, timeout=60, excluded_checks=[positive_data_acceptance])

    every_case_is_answered()


@pytest.mark.parametrize(("path", "method"), OPERATIONS)
def test_what_is_sent_is_answered_as_described(server, path, method):
    fuzz(server, path, method, 12)


@pytest.mark.slow
@pytest.mark.parametrize(("path", "method"), OPERATIONS)
def test_much_that_is_sent_is_answered_as_described(server, path, method):
    fuzz(server, path, method, 200)


HOSTILE = [
    "\0",
    "a\0b",
    "\ud800",  # halves of characters: JSON can write them, text cannot hold them
    "a\udfff b",
    "\u202e\u2066abc\u2069",  # right to left, inside out
    "e" + "\u0301" * 500,
    "\ufeff\u200b\u2028\u2029\x85",
    "\U0010ffff\ufffe",
    "İIıſK",  # which change their length when they change their case
    "[_]" * 10,
    "\\" * 100 + "[_]",
    "<unk> <sep> <cls> <end> <style:positive> _num_",
    "1" * 600,
    "." * 600,
    "👩‍👩‍👧‍👦 " * 40,
    "﷽" * 50,
    " \t\n" * 200,
]
REQUESTS = {
    "locate": lambda text: {"text": text},
    "infill": lambda text: {"text": f"{text[:300]} [_]"},
    "score": lambda text: {"left": text, "inserted": text, "right": text},
    "replace": lambda text: {"text": text, "span": text},
    "delete": lambda text: {"text": text, "unit": "sentence"},
    "classify": lambda text: {"text": [text, "fine"]},
    "transfer": lambda text: {"text": text[:100], "to": "positive", "keep": [text[:100]], "max_steps": 1},
}


def post(address, body):
    return httpx2.post(address, content=body, headers={"Content-Type": "application/json"}, timeout=60)


@pytest.mark.parametrize("operation", REQUESTS)
def test_hostile_text_is_text_everywhere(server, operation):
    for text in HOSTILE:
        found = post(f"{server}/v1/{operation}", json.dumps(REQUESTS[operation](text)))
        assert found.status_code in (200, 422), (text, found.text)
        found.json()


@pytest.mark.parametrize("depth", [100, 10_000, 200_000])
def test_deep_json_is_refused(server, depth):
    for opening, closing in (("[", "]"), ('{"text":', "}")):
        body = f'{{"text": {opening * depth}1{closing * depth}}}'
        found = post(f"{server}/v1/locate", body)
        assert found.status_code in (400, 413, 422)


def test_connections_are_capped_and_come_back(editor):
    with serving(create_app({"toy": editor}), limit_concurrency=4) as address:
        where = (urlsplit(address).hostname, urlsplit(address).port)
        idle = [socket.create_connection(where) for _ in range(8)]
        assert httpx2.get(f"{address}/v1/models").status_code == 503
        for connection in idle:
            connection.close()
        assert httpx2.get(f"{address}/v1/models").status_code == 200
