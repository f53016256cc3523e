"""ONNX Runtime's network without torch, in several threads, in forked and in spawned processes; and bad files."""

import json
import multiprocessing
import os
import pickle
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace

import numpy as np
import pytest

from conftest import tiny_model
from xl_editor.errors import ModelError
from xl_editor.network.export import write_graphs
from xl_editor.network.graphs import DIRECTORY, WEIGHTS_OF_GRAPHS
from xl_editor.network.onnx import OnnxNetwork


@pytest.fixture(scope="module")
def directory(tmp_path_factory):
    directory = tmp_path_factory.mktemp("model")
    tiny_model(n_labels=2).save_pretrained(directory)
    write_graphs(directory)
    return directory


def answer(network, size: int = 7) -> np.ndarray:
    """Log-probabilities of the token after `size` others."""
    distance = np.arange(size + 1)[:, None] - np.arange(size)
    relation = SimpleNamespace(distance=distance[None], visible=np.ones((1, size + 1, size), bool), other_segment=None)
    states, _ = network.advance(np.arange(size)[None] % 31, relation, n_read=1)
    return network.logprobs(states[:, 0])


def answer_elsewhere(network, connection) -> None:
    connection.send(answer(network))
    connection.close()


@pytest.mark.skipif(not os.path.isdir("/proc/self/task"), reason="threads cannot be counted")
def test_onnx_runtime_reports_to_nobody():
    """The thread that would report is not started."""
    program = "import os, xl_editor.network.onnx; assert len(os.listdir('/proc/self/task')) == 1"
    environment = {name: value for name, value in os.environ.items() if name != "ORT_DISABLE_TELEMETRY"}
    one_thread = dict.fromkeys(("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"), "1")
    subprocess.run([sys.executable, "-c", program], env=environment | one_thread, check=True)


def test_nothing_that_edits_imports_torch(directory):
    program = f"""
import sys
sys.modules["torch"] = None  # so that importing it fails
sys.path[:0] = {[os.path.dirname(__file__), *sys.path]}
from types import SimpleNamespace
import numpy as np
from xl_editor.network.onnx import OnnxNetwork
network = OnnxNetwork({str(directory)!r}, threads=1)
relation = SimpleNamespace(distance=np.zeros((1, 2, 1), int), visible=np.ones((1, 2, 1), bool), other_segment=None)
states, _ = network.advance(np.array([[3]]), relation, n_read=1)
assert network.logprobs(states[:, 0]).shape == (1, 31)
assert network.classify(states[:, 0]).shape == (1, 2)
assert not [name for name in sys.modules if name.split(".")[0] in ("torch", "onnx", "transformers")
            and sys.modules[name] is not None]
"""
    subprocess.run([sys.executable, "-c", program], check=True)


@pytest.mark.parametrize("threads", [1, 2])
def test_many_threads_at_once(directory, threads):
    network = OnnxNetwork(directory, threads=threads)
    sizes = [3, 40, 90, 7, 150, 20, 3, 61] * 6
    expected = {size: answer(OnnxNetwork(directory, threads=1), size) for size in set(sizes)}
    with ThreadPoolExecutor(8) as pool:
        for size, found in zip(sizes, pool.map(lambda size: answer(network, size), sizes), strict=True):
            np.testing.assert_allclose(found, expected[size], atol=1e-5)


@pytest.mark.filterwarnings("ignore:.*fork.*")
@pytest.mark.parametrize("method", [m for m in ("fork", "spawn") if m in multiprocessing.get_all_start_methods()])
@pytest.mark.parametrize("threads", [1, 2])
def test_another_process_answers_the_same(directory, method, threads):
    network = OnnxNetwork(directory, threads=threads)
    expected = answer(network)  # its threads are running
    context = multiprocessing.get_context(method)
    here, there = context.Pipe()
    process = context.Process(target=answer_elsewhere, args=(network, there))
    process.start()
    assert here.poll(600), "no answer"
    np.testing.assert_allclose(here.recv(), expected, atol=1e-6)
    process.join(600)
    assert process.exitcode == 0
    np.testing.assert_array_equal(answer(network), expected)  # and here it goes on


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork")
def test_a_forked_interpreter_that_ends_as_usual_ends(directory):
    """Its parent's sessions are not waited for: their threads are not there."""
    program = f"""
import os, sys
sys.path[:0] = {[os.path.dirname(__file__), *sys.path]}
from test_network_processes import answer
from xl_editor.network.onnx import OnnxNetwork
network = OnnxNetwork({str(directory)!r}, threads=2)
answer(network)
child = os.fork()
if child:
    assert os.waitpid(child, 0)[1] == 0
else:
    answer(network)
"""
    subprocess.run([sys.executable, "-W", "ignore", "-c", program], check=True, timeout=600)


def test_int8_and_threads_survive_pickling(directory):
    network = OnnxNetwork(directory, int8=True, threads=2)
    np.testing.assert_array_equal(answer(pickle.loads(pickle.dumps(network))), answer(network))


def test_a_cache_of_another_network_is_refused(directory):
    network = OnnxNetwork(directory, threads=1)
    relation = SimpleNamespace(distance=np.zeros((1, 1, 2), int), visible=np.ones((1, 1, 2), bool), other_segment=None)
    with pytest.raises(TypeError, match="OnnxCache was expected"):
        network.advance(np.array([[1]]), relation, n_read=0, cache=SimpleNamespace(size=1))


@pytest.mark.parametrize(
    ("ids", "shape", "n_read", "message"),
    [
        (np.zeros(4, int), (1, 4, 4), 1, "wants ids"),
        (np.zeros((0, 4), int), (0, 4, 4), 1, "empty batch"),
        (np.zeros((2, 4), int), (2, 4, 5), 1, "does not fit 2 sequences of 4 new"),
        (np.zeros((2, 4), int), (2, 3, 4), 1, "does not fit"),
        (np.zeros((2, 4), int), (2, 4, 4), 5, r"n_read must lie within 0\.\.4"),
        (np.full((1, 4), 31), (1, 4, 4), 1, r"within 0\.\.30, got 31\.\.31"),
    ],
)
def test_bad_requests_are_refused(directory, ids, shape, n_read, message):
    relation = SimpleNamespace(distance=np.zeros(shape, int), visible=np.ones(shape, bool), other_segment=None)
    with pytest.raises(ModelError, match=message):
        OnnxNetwork(directory, threads=1).advance(ids, relation, n_read=n_read)


def test_a_model_without_labels_says_so(tmp_path):
    tiny_model().save_pretrained(tmp_path)
    write_graphs(tmp_path)
    with pytest.raises(ModelError, match="no classification head"):
        OnnxNetwork(tmp_path, threads=1).classify(np.zeros((1, 32), np.float32))


def test_bad_directories_are_refused(tmp_path):
    def refused(message: str) -> None:
        with pytest.raises(ModelError, match=message):
            OnnxNetwork(tmp_path, threads=1)

    refused("holds no config.json")
    tiny_model().save_pretrained(tmp_path)
    refused("has no graphs for ONNX Runtime: `xl-editor export .*` writes them, which needs torch")
    write_graphs(tmp_path)
    tiny_model(d_inner=64).save_pretrained(tmp_path)
    refused("does not fit the model beside it")
    tiny_model(n_layer=2).save_pretrained(tmp_path)
    refused("model.safetensors lacks transformer.layer.2.ff.layer_1.bias")
    tiny_model().save_pretrained(tmp_path)
    weights, index = tmp_path / "model.safetensors", tmp_path / DIRECTORY / WEIGHTS_OF_GRAPHS
    weights.write_bytes(weights.read_bytes()[:-100])
    refused("model.safetensors is not a readable safetensors file")
    weights.unlink()
    refused("holds no model.safetensors")
    index.write_text(json.dumps({"format": 0}))
    refused("was written by another version")
    index.write_text("{")
    refused("is damaged")
