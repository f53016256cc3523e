"""The API: the numbers of Python, one sentence for whatever is wrong, and limits that hold."""

import asyncio
import json
import os
import socket
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import httpx2
import pytest
from serving import free_port, running, serving

from commands import run_here
from xl_editor.editor import Call, Editor
from xl_editor.errors import EditorError
from xl_editor.operations import Ongoing
from xl_editor.server import guard, worker
from xl_editor.server.app import create_app
from xl_editor.server.metrics import Metrics

SENTENCES = ["the food was great .", "the service was slow !", "i paid _num_ dollars .", "the staff is very friendly ."]
TEXT = "The food wasn't good! We'll come back again."
ASKED = {
    "locate": {"text": TEXT, "top": 3, "style": "negative"},
    "infill": {"text": "The food was [_] and [_].", "n": 3, "max_length": 3},
    "score": {"left": "The food was", "inserted": "great", "right": "."},
    "replace": {"text": TEXT, "span": [16, 20], "n": 2, "max_length": 3},
    "delete": {"text": TEXT, "unit": "word", "top": 4},
    "classify": {"text": TEXT},
    "transfer": {"text": TEXT, "to": "negative", "preset": "paper", "threshold": -1.0, "max_steps": 2},
}


@pytest.fixture(scope="module")
def server(editor):
    with serving(create_app({"toy": editor})) as address:
        yield address


@pytest.fixture
def client(server):
    with httpx2.Client(base_url=server, timeout=60) as client:
        yield client


LISTS = {"locate": "slots", "infill": "fillings", "replace": "edits", "delete": "deletions"}


def directly(editor, operation, arguments):
    result = getattr(editor, operation)(**arguments)
    if operation in LISTS:
        result = {"text": arguments["text"], LISTS[operation]: [answer.to_dict() for answer in result]}
    elif operation == "classify":
        result = {"text": arguments["text"], "styles": result}
    else:
        result = result.to_dict()
    return json.loads(json.dumps(result))


def same(found, expected):
    """Equal, with numbers as equal as they are from one batch to another."""
    if isinstance(expected, dict):
        return found.keys() == expected.keys() and all(same(found[k], expected[k]) for k in expected)
    if isinstance(expected, list):
        return len(found) == len(expected) and all(map(same, found, expected))
    return found == pytest.approx(expected, rel=1e-4, abs=1e-4) if isinstance(expected, float) else found == expected


@pytest.mark.parametrize("operation", ASKED)
def test_http_answers_what_python_does_for_one_text_and_for_a_list(client, editor, operation):
    asked = ASKED[operation]
    expected = directly(editor, operation, asked)
    found = client.post(f"/v1/{operation}", json=asked)
    assert found.status_code == 200, found.text
    assert same(found.json(), expected)
    per_text = [name for name in asked if name in ("text", "span", "left", "inserted", "right")]
    several = {**asked, **{name: [asked[name]] * 2 for name in per_text}}
    assert same(client.post(f"/v1/{operation}", json=several).json(), {"results": [expected, expected]})


def test_http_and_the_command_line_say_the_same(client, toy_directory):
    asked = {"text": "the food was [_] .", "n": 2, "max_length": 3}
    command = ["infill", asked["text"], "--top", "2", "--max-length", "3", "--json", "--model", str(toy_directory)]
    done = run_here(*command)
    assert same(client.post("/v1/infill", json=asked).json(), json.loads(done.stdout))


def test_calls_of_all_kinds_answered_together_are_as_alone(editor):
    calls = [Call(name, asked) for name, asked in ASKED.items()]
    calls += [Call("locate", {"text": text, "top": 100}) for text in SENTENCES]
    calls.insert(3, Call("infill", {"text": "no blank"}))
    results = editor.answer_all(calls)
    assert isinstance(results.pop(3), EditorError)
    del calls[3]
    for call, result in zip(calls, results, strict=True):
        alone = getattr(editor, call.method)(**call.arguments)
        if call.arguments.get("top") == 100:
            # A random model's values lie so close that two may change places where the rounding has its edge.
            result, alone = (sorted(slots, key=lambda slot: slot.char) for slots in (result, alone))
        assert same(plain(result), plain(alone))


def plain(result):
    listed = result if isinstance(result, list) else [result]
    return json.loads(json.dumps([answer if isinstance(answer, dict) else answer.to_dict() for answer in listed]))


def test_concurrent_requests_get_their_own_answers_and_share_batches(editor):
    texts = [f"{sentence} {i} [_]" for sentence in SENTENCES for i in range(6)]
    expected = [directly(editor, "infill", {"text": text, "n": 2, "max_length": 2}) for text in texts]
    with serving(create_app({"toy": editor})) as address, ThreadPoolExecutor(len(texts)) as pool:

        def ask(text):
            return httpx2.post(f"{address}/v1/infill", json={"text": text, "n": 2, "max_length": 2}, timeout=60)

        found = list(pool.map(ask, texts))
        metrics = httpx2.get(f"{address}/metrics").text
    assert all(same(answer.json(), wanted) for answer, wanted in zip(found, expected, strict=True))
    assert 'xl_editor_requests_total{operation="infill",status="200"} 24.0' in metrics
    batches = float(metrics.split("xl_editor_batch_texts_count ")[1].split()[0])
    assert batches < len(texts)


class Watched:
    """Notes what an editor answers at the same time; the first time it waits until it is let go."""

    def __init__(self, editor, monkeypatch):
        self.go, self.together, self.texts = threading.Event(), [], {}
        begin, advance = editor.begin, editor.advance

        def noted(call, tell):
            ongoing = begin(call, tell)
            self.texts[id(ongoing)] = ongoing, call.arguments["text"]
            return ongoing

        def watched(calls, before_batch):
            self.together.append([self.texts[id(call)][1] for call in calls])
            self.go.wait(30)
            advance(calls, before_batch)

        monkeypatch.setattr(editor, "begin", noted)
        monkeypatch.setattr(editor, "advance", watched)

    def let_go_when(self, address, n_texts):
        """All these have come, and either wait or are about to be answered."""
        wait_until(lambda: self.together and waiting_texts(address) + len(self.together[0]) == n_texts)
        self.go.set()


def test_transfers_that_wait_together_go_on_together_and_a_refused_one_harms_nobody(editor, monkeypatch):
    monkeypatch.setattr(worker, "TRANSFERRED_AT_ONCE", 250)
    how = {"preset": "paper", "threshold": -1.0, "max_steps": 2}
    asked = [{"text": f"{sentence} {i}", "to": "negative", **how} for i in range(3) for sentence in SENTENCES]
    asked += [{"text": TEXT, "to": "positive", **how}, {"text": " ", "to": "negative", **how}]
    expected = [directly(editor, "transfer", body) for body in asked[:-1]]
    watched = Watched(editor, monkeypatch)
    with serving(create_app({"toy": editor})) as address, ThreadPoolExecutor(len(asked)) as pool:

        def ask(body):
            return httpx2.post(f"{address}/v1/transfer", json=body, timeout=60)

        found = [pool.submit(ask, body) for body in asked]
        watched.let_go_when(address, len(asked))
        *fine, refused = [answer.result() for answer in found]
    assert refused.status_code == 422
    assert all(same(answer.json(), wanted) for answer, wanted in zip(fine, expected, strict=True))
    assert max(map(len, watched.together)) > 3
    assert all(len(texts) == 1 or sum(map(len, texts)) <= 250 for texts in watched.together)


def test_many_texts_are_answered_in_portions_between_which_others_are(editor, monkeypatch):
    monkeypatch.setattr(worker, "CHARACTERS_AT_ONCE", 45)
    many = [f"{sentence} {i}" for i in range(4) for sentence in SENTENCES]
    watched = Watched(editor, monkeypatch)
    with serving(create_app({"toy": editor})) as address, ThreadPoolExecutor(2) as pool:
        all_of_them = pool.submit(httpx2.post, f"{address}/v1/classify", json={"text": many}, timeout=60)
        wait_until(lambda: watched.together)
        one = pool.submit(httpx2.post, f"{address}/v1/classify", json={"text": "quick"}, timeout=60)
        wait_until(
            lambda: waiting_texts(address) == 1
        )  # what is left of the other does not wait while a part is answered
        watched.go.set()
        assert one.result().status_code == 200
        found = all_of_them.result().json()["results"]
    assert [answer["text"] for answer in found] == many
    assert all(same(answer["styles"], editor.classify(answer["text"])) for answer in found)
    assert all(len(texts) == 1 or sum(map(len, texts)) <= 45 for texts in watched.together)
    assert "quick" in watched.together[1]  # not behind all of them


def test_refused_streams_are_counted(editor):
    with serving(create_app({"toy": editor})) as address:
        asked = {"text": "a", "to": "ironic", "stream": True}
        assert httpx2.post(f"{address}/v1/transfer", json=asked).status_code == 422
        metrics = httpx2.get(f"{address}/metrics").text
    assert 'xl_editor_requests_total{operation="transfer",status="422"} 1.0' in metrics


def test_a_stream_tells_the_edits_one_by_one_and_then_the_trace(client, editor):
    expected = directly(editor, "transfer", ASKED["transfer"])
    with client.stream("POST", "/v1/transfer", json={**ASKED["transfer"], "stream": True}) as response:
        assert response.headers["content-type"].startswith("text/event-stream")
        events = [part.split("\n") for part in response.read().decode().split("\n\n") if part]
    names = [name.removeprefix("event: ") for name, _ in events]
    data = [json.loads(line.removeprefix("data: ")) for _, line in events]
    assert names == ["edit"] * len(expected["edits"]) + ["trace"]
    assert same(data[:-1], expected["edits"])
    assert same(data[-1], expected)


def test_edits_are_told_as_they_are_made(editor):
    how = {"to": "negative", "preset": "paper", "threshold": -1.0, "max_steps": 3}
    told, growing = [], []
    ongoing = editor.begin(Call("transfer", {"text": TEXT, **how}), told.append)
    while not ongoing.is_finished:
        editor.advance([ongoing], lambda: None)
        growing.append(len(told))
    assert tuple(told) == ongoing.result.edits
    assert sorted(set(growing)) == [0, 1, 2, 3]


@pytest.mark.parametrize(
    ("path", "body", "status", "kind", "field", "message"),
    [
        ("/v1/locate", b"{", 400, "bad_json", None, "not JSON"),
        ("/v1/locate", b"[" * 100_000, 400, None, None, ""),
        ("/v1/locate", b"[]", 422, "invalid", None, "must be a JSON object"),
        ("/v1/locate", b'"text"', 422, "invalid", None, "must be a JSON object"),
        ("/v1/locate", b"", 422, "invalid", None, "must be a JSON object"),
        ("/v1/locate", {"text": ""}, 422, "invalid", "text", "text must not be empty"),
        ("/v1/locate", {"text": "a" * 3001}, 422, "invalid", "text", "at most 3000 characters"),
        ("/v1/transfer", {"text": "a" * 601, "to": "positive"}, 422, "invalid", "text", "at most 600 characters"),
        ("/v1/locate", {"text": ["a"] * 65}, 422, "invalid", "text", "at most 64"),
        ("/v1/locate", {"text": ["the food", " "]}, 422, "invalid", "text.1", "must not be empty"),
        ("/v1/transfer", {"text": ["a", " "], "to": "positive"}, 422, "invalid", "text.1", "must not be empty"),
        ("/v1/locate", {"text": "a", "top": "3"}, 422, "invalid", "top", "valid integer"),
        ("/v1/locate", {"text": "a", "colour": 3}, 422, "invalid", "colour", "not permitted"),
        ("/v1/locate", {"text": "a", "style": "ironic"}, 422, "invalid", "style", "negative, positive"),
        ("/v1/locate", {"text": "a", "model": "gpt"}, 404, "model_not_found", "model", "toy"),
        ("/v1/locate", b'{"text": "\\ud800"}', 422, "invalid", "text", ""),
        ("/v1/infill", {"text": "no blank"}, 422, "invalid", "text", "must contain a blank"),
        ("/v1/infill", {"text": "[_] " * 21}, 422, "invalid", "text", "at most 20 blanks"),
        ("/v1/infill", {"text": "[_]", "beam": 10_000}, 422, "invalid", "beam", "less than or equal"),
        ("/v1/replace", {"text": "a b", "span": [1, 99]}, 422, "invalid", "span", "within 0..3"),
        ("/v1/replace", {"text": ["a"], "span": "a"}, 422, "invalid", "text", "lists of the same length"),
        ("/v1/transfer", {"text": "a", "to": "ironic"}, 422, "invalid", "to", "negative, positive"),
        ("/v1/transfer", {"text": "a", "to": "ironic", "stream": True}, 422, "invalid", "to", "negative, positive"),
        ("/v1/nothing", {}, 404, "not_found", None, "Not Found"),
    ],
)  # fmt: skip
def test_whatever_is_wrong_is_one_typed_sentence(client, path, body, status, kind, field, message):
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    found = client.post(path, content=content, headers={"Content-Type": "application/json"})
    assert found.status_code == status, found.text
    error = found.json()
    assert error.keys() == {"error", "error_type", "field"}
    assert error["error_type"] == kind or kind is None
    assert error["field"] == field
    assert message in error["error"]
    assert len(error["error"]) < 300


def test_a_bug_is_a_500_and_no_refusal(editor, monkeypatch):
    def breaks(*_, **__):
        raise ValueError("text of zip() argument 2 is shorter than argument 1")

    monkeypatch.setattr("xl_editor.operations.locate", breaks)
    with serving(create_app({"toy": editor})) as address:
        found = httpx2.post(f"{address}/v1/locate", json={"text": "a"})
        assert httpx2.post(f"{address}/v1/classify", json={"text": "a"}).status_code == 200
    assert (found.status_code, found.json()["error_type"], found.json()["field"]) == (500, "internal", None)
    assert "zip" not in found.text


def test_a_hundred_megabytes_are_refused_unread(server):
    found = httpx2.post(f"{server}/v1/locate", content=(b" " * 10**6 for _ in range(100)))
    assert found.status_code == 413
    connection = socket.create_connection(("127.0.0.1", int(server.rsplit(":", 1)[1])))
    connection.sendall(b"POST /v1/locate HTTP/1.1\r\nHost: x\r\nContent-Length: 100000000\r\n\r\n")
    assert b"413" in connection.recv(1000)


def test_a_slow_body_is_cut_off(editor, monkeypatch):
    monkeypatch.setattr(guard, "BODY_SECONDS", 0.3)
    with serving(create_app({"toy": editor})) as address:
        connection = socket.create_connection(("127.0.0.1", int(address.rsplit(":", 1)[1])))
        connection.sendall(b"POST /v1/locate HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\n{")
        connection.settimeout(5)
        assert b"408" in connection.recv(1000)


class Stalled:
    """An editor that computes nothing until it is let go."""

    def __init__(self, editor):
        self.engine, self.styles, self.model = editor.engine, editor.styles, editor.model
        self.go, self.calls = threading.Event(), []

    def begin(self, call, tell):
        def plan():
            self.calls.append(call)
            yield from ()
            return {"positive": 1.0}

        return Ongoing(plan(), tell)

    def advance(self, calls, before_batch):
        self.go.wait(30)
        for call in calls:
            call.go_on()


@pytest.fixture
def stalled(editor):
    return Stalled(editor)


def wait_until(condition):
    deadline = time.monotonic() + 10
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def waiting_texts(address):
    metrics = httpx2.get(f"{address}/metrics").text
    return float(metrics.split("\nxl_editor_waiting_texts ")[1].split()[0])


def test_past_the_bound_is_429_health_goes_on_and_who_leaves_is_dropped(stalled):
    with serving(create_app({"toy": stalled}, max_waiting=2)) as address, ThreadPoolExecutor(8) as pool:

        def ask(text, timeout=30.0):
            return httpx2.post(f"{address}/v1/classify", json={"text": text}, timeout=timeout)

        def queue(n):
            wait_until(lambda: waiting_texts(address) == n)

        computed = pool.submit(ask, "computed")
        time.sleep(0.3)
        waits = pool.submit(ask, "waits")
        queue(1)
        leaves = pool.submit(ask, "leaves", 1.0)
        queue(2)
        refused = ask("refused")
        assert refused.status_code == 429
        assert 1 <= int(refused.headers["Retry-After"]) <= 60
        assert refused.json()["error_type"] == "busy"
        assert httpx2.get(f"{address}/healthz").json() == {"status": "ok"}
        assert isinstance(leaves.exception(), httpx2.TimeoutException)
        queue(1)
        stalled.go.set()
        assert computed.result().status_code == waits.result().status_code == 200
    assert [call.arguments["text"] for call in stalled.calls] == ["computed", "waits"]


def test_who_leaves_a_stream_before_its_first_event_is_dropped(stalled):
    with serving(create_app({"toy": stalled})) as address, ThreadPoolExecutor(2) as pool:
        computed = pool.submit(httpx2.post, f"{address}/v1/classify", json={"text": "computed"}, timeout=30)
        time.sleep(0.3)
        asked = {"text": "leaves", "to": "positive", "stream": True}
        leaves = pool.submit(httpx2.post, f"{address}/v1/transfer", json=asked, timeout=1.0)
        wait_until(lambda: waiting_texts(address) == 1)
        assert isinstance(leaves.exception(), httpx2.TimeoutException)
        wait_until(lambda: waiting_texts(address) == 0)
        stalled.go.set()
        assert computed.result().status_code == 200


def test_a_request_that_takes_too_long_is_told_so(stalled, monkeypatch):
    monkeypatch.setattr(worker, "SECONDS_PER_REQUEST", 0.2)
    with serving(create_app({"toy": stalled})) as address:
        found = httpx2.post(f"{address}/v1/classify", json={"text": "a"})
        stalled.go.set()
    assert (found.status_code, found.json()["error_type"]) == (503, "timeout")


def test_what_nobody_waits_for_is_not_computed_to_its_end(editor, monkeypatch):
    left, batches = threading.Event(), []
    score = editor.engine._score_whole

    def scored(batch):
        batches.append(len(batch))
        if len(batches) == 2:
            left.wait(30)
        return score(batch)

    monkeypatch.setattr(editor.engine, "_score_whole", scored)
    monkeypatch.setattr(editor.engine, "rows_at_once", 1)
    app = create_app({"toy": editor})
    with serving(app) as address, httpx2.Client() as client, ThreadPoolExecutor(1) as pool:
        asked = pool.submit(client.post, f"{address}/v1/locate", json={"text": "the food was great " * 5}, timeout=2.0)
        wait_until(lambda: len(batches) == 2)
        assert isinstance(asked.exception(), httpx2.TimeoutException)
        wait_until(lambda: 'operation="locate",status="499"' in httpx2.get(f"{address}/metrics").text)
        left.set()
    assert len(batches) == 2


def test_a_key_is_wanted_where_one_is_set(editor):
    app = create_app({"toy": editor}, api_key="open sesame", origins=["https://a.example"])
    with serving(app) as address, httpx2.Client(base_url=address) as client:
        for wrong in ({}, {"Authorization": "Bearer x"}, {"Authorization": "Bearer é".encode()}):
            refused = client.post("/v1/classify", json={"text": "a"}, headers=wrong)
            assert (refused.status_code, refused.json()["error_type"]) == (401, "unauthorized")
        key = {"Authorization": "Bearer open sesame", "Origin": "https://a.example"}
        allowed = client.post("/v1/classify", json={"text": "a"}, headers=key)
        assert allowed.status_code == 200
        assert allowed.headers["Access-Control-Allow-Origin"] == "https://a.example"
        other = client.get("/healthz", headers={"Origin": "https://b.example"})
        assert "Access-Control-Allow-Origin" not in other.headers


def test_names_that_are_not_ours_are_refused(editor):
    def status(address, host):
        return httpx2.get(f"{address}/v1/models", headers={"Host": host}).status_code

    with serving(create_app({"toy": editor}, hosts=("127.0.0.1", "::1", "localhost"))) as address:
        assert [status(address, host) for host in ("localhost:80", "LOCALHOST", "[::1]:8000", "127.0.0.1")] == [200] * 4
        assert [status(address, host) for host in ("evil.example", "localhost.evil.example", "[::2]", "")] == [400] * 4
    with serving(create_app({"toy": editor})) as address:
        assert status(address, "any.example") == 200


def test_who_names_no_model_is_answered_by_the_first_that_can(editor):
    plain = Editor(editor.model, editor.codec)
    plain.engine.format = replace(editor.engine.format, styles={})
    with serving(create_app({"plain": plain, "styled": editor})) as address:
        texts = {"text": TEXT}
        assert httpx2.post(f"{address}/v1/classify", json=texts).json()["styles"] == editor.classify(TEXT)
        assert httpx2.post(f"{address}/v1/locate", json={**texts, "style": "positive"}).status_code == 200
        refused = httpx2.post(f"{address}/v1/locate", json={**texts, "style": "positive", "model": "plain"})
        assert refused.status_code == 422


def test_models_health_and_readiness(client):
    (model,) = client.get("/v1/models").json()["models"]
    assert (model["name"], model["styles"]) == ("toy", ["negative", "positive"])
    assert model["presets"]["default"]["max_steps"] >= 1
    assert model["presets"]["paper"]["threshold"] > 0
    assert client.get("/readyz").json() == {"status": "ready"}
    assert client.get("/docs").status_code == 200
    paths = client.get("/openapi.json").json()["paths"]
    assert set(ASKED) <= {path.removeprefix("/v1/") for path in paths}


def test_clients_that_hang_up_do_no_harm(toy_directory):
    port = free_port()
    with running(toy_directory, port) as (address, process):
        for _ in range(30):
            with socket.create_connection(("127.0.0.1", port)) as connection:
                connection.sendall(b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
        time.sleep(0.5)
        assert process.poll() is None
        assert httpx2.get(f"{address}/healthz").status_code == 200


@pytest.mark.skipif(os.name == "nt", reason="POSIX signals")
def test_sigterm_finishes_what_was_accepted(toy_directory):
    # One client, for it takes a while to make one: all have asked long before the signal.
    with (
        running(toy_directory, free_port()) as (address, process),
        httpx2.Client(timeout=60) as client,
        ThreadPoolExecutor(12) as pool,
    ):
        asked = {"text": ["the food was great and the staff is slow . " * 8] * 4, "unit": "span"}
        answers = [pool.submit(client.post, f"{address}/v1/delete", json=asked) for _ in range(12)]
        time.sleep(1.5)  # until all have come
        process.terminate()
        assert [answer.result().status_code for answer in answers] == [200] * 12
        assert process.wait(timeout=30) in (0, -15)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--host", "0.0.0.0"], "give it a key"),
        (["--model", "./nowhere"], "not a directory with a model"),
        (["--model", ""], "--model must name a model, and is empty."),
        (["--model", "one/model", "--model", "other/model"], "different names, got model, model"),
    ],
)
def test_what_cannot_be_served_is_one_sentence(arguments, message):
    assert_refused(arguments, message)


@pytest.mark.parametrize("key", ["schlüssel", "two\nlines", "\ufeff"])
def test_a_key_that_no_header_can_carry_is_refused(tmp_path, key):
    (tmp_path / "key").write_text(key, encoding="utf-8")
    assert_refused(["--api-key-file", str(tmp_path / "key")], "key")


def test_a_port_that_is_taken_is_one_sentence(server, toy_directory):
    port = server.rsplit(":", 1)[1]
    assert_refused(["--model", str(toy_directory), "--port", port], f"Nobody can be served at 127.0.0.1:{port}: ")


def test_a_model_is_called_by_its_directory_however_that_is_written(toy_directory, monkeypatch):
    monkeypatch.chdir(toy_directory)
    with running(".", free_port()) as (address, _):
        found = httpx2.get(f"{address}/v1/models").json()["models"]
    assert [model["name"] for model in found] == [toy_directory.name]


def assert_refused(arguments, message):
    done = run_here("serve", *arguments)
    assert done.returncode == 2
    assert message in done.stderr.decode()
    assert len(done.stderr.decode().strip().splitlines()) == 1


def test_correcting_over_http_is_correcting(editor, wild_directory):
    wild = Editor.from_pretrained(wild_directory)
    with (
        serving(create_app({"toy": editor, "wild": wild})) as address,
        httpx2.Client(base_url=address, timeout=60) as client,
    ):
        asked = {"text": [TEXT, "It is."], "keep": ["food"], "n": 1, "threshold": 0.25}
        found = client.post("/v1/correct", json=asked).json()["results"]  # by the model that can
        settings = {"keep": ["food"], "n": 1, "threshold": 0.25}
        expected = [wild.correct(text, **settings) for text in asked["text"]]
        assert [one["text"] for one in found] == [one.text for one in expected]
        decided = [[(edit["start"], edit["end"], edit["new"]) for edit in one["edits"]] for one in found]
        assert decided == [[(edit.start, edit.end, edit.new) for edit in one.edits] for one in expected]
        refused = client.post("/v1/correct", json={"text": TEXT, "model": "toy"})
        assert (refused.status_code, "has not learnt to correct" in refused.text) == (422, True)


class Panic(BaseException):
    """As a library that is not written in Python raises it: no Exception."""


@pytest.mark.parametrize("where", ["engine", "plan"])
def test_a_panic_is_a_500_for_that_request_and_the_worker_lives(editor, monkeypatch, where):
    def panic(*_, **__):
        raise Panic("no way")

    with serving(create_app({"toy": editor})) as address:  # which closes a connection after an error of its own

        def ask():
            return httpx2.post(f"{address}/v1/locate", json=ASKED["locate"], timeout=60)

        with monkeypatch.context() as broken:
            target = (editor.engine.frozen, "advance") if where == "engine" else (editor.codec, "encode")
            broken.setattr(*target, panic)
            found = ask()
            assert (found.status_code, "no way" in found.text) == (500, False)
        assert ask().status_code == 200
        assert httpx2.get(f"{address}/healthz", timeout=60).status_code == 200


def test_healthz_says_if_nothing_computes_any_more(editor, monkeypatch):
    with (
        serving(create_app({"toy": editor})) as address,
        httpx2.Client(base_url=address, timeout=60) as client,
        monkeypatch.context() as dead,
    ):
        assert client.get("/healthz").status_code == 200
        dead.setattr(worker.Worker, "is_alive", False)
        assert client.get("/healthz").status_code == 503


def test_a_job_counts_all_its_texts_against_the_queue(editor):
    """One with as many texts as there is room for is accepted only where nothing else waits."""
    queue = worker.Worker(4, Metrics())  # not started: what is accepted waits
    calls = [Call("locate", {"text": "a"})] * 2

    def accept(n: int) -> None:
        queue._accept(worker._Job(editor, (calls * n)[:n], asyncio.new_event_loop()))

    accept(2)
    accept(2)
    with pytest.raises(worker.BusyError):
        accept(1)
    other = worker.Worker(4, Metrics())
    other._accept(worker._Job(editor, calls, asyncio.new_event_loop()))
    with pytest.raises(worker.BusyError):
        other._accept(worker._Job(editor, [*calls, *calls[:1]], asyncio.new_event_loop()))
