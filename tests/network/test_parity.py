"""ONNX Runtime against torch: the same states and probabilities, whatever is asked, and in whatever company."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

import xl_editor
from conftest import tiny_model
from xl_editor.config import load_config
from xl_editor.network.export import write_graphs
from xl_editor.network.onnx import OnnxNetwork
from xl_editor.network.torch import TorchNetwork

XLNET = "xlnet"  # a tiny random model, asked with segments
BUNDLED = {path.parent.name: path.parent for path in Path(xl_editor.__file__).parent.glob("models/*/config.json")}


@dataclass(frozen=True)
class Relation:
    distance: np.ndarray
    visible: np.ndarray
    other_segment: np.ndarray | None

    def __getitem__(self, index) -> "Relation":
        other = None if self.other_segment is None else self.other_segment[index]
        return Relation(self.distance[index], self.visible[index], other)


@dataclass(frozen=True)
class Problem:
    """A batch, to be asked in one pass, or the first tokens before the others."""

    ids: np.ndarray  # (B, N)
    relation: Relation  # (B, N + Q, N); nobody sees padding, and no token sees what comes after

    def __getitem__(self, rows) -> "Problem":
        return Problem(self.ids[rows], self.relation[rows])

    @property
    def n_queries(self) -> int:
        return self.relation.distance.shape[1] - self.ids.shape[1]

    def part(self, start: int, end: int, queries: slice) -> "Problem":
        """The content rows start..end and some query rows, which see the keys before `end`."""
        n = self.ids.shape[1]
        rows = [*range(start, end), *range(n, n + self.n_queries)[queries]]
        return Problem(self.ids[:, start:end], self.relation[:, rows, :end])


def random_problem(seed: int, vocabulary: int, batch: int, n: int, n_queries: int, *, segments: bool) -> Problem:
    random = np.random.default_rng(seed)
    shape = batch, n + n_queries, n
    visible = random.random(shape) < 0.7
    visible[:, :n] &= np.tri(n, dtype=bool)
    padding = np.arange(n) >= random.integers(max(1, n // 2), n + 1, batch)[:, None]
    visible &= ~padding[:, None]
    visible[:, :, 0] = True
    distance = np.where(visible, random.integers(-n - 2, n + 3, shape), 0)
    other = random.random(shape) < 0.3 if segments else None
    return Problem(random.integers(0, vocabulary, (batch, n)), Relation(distance, visible, other))


@pytest.fixture(scope="module")
def xlnet_directory(tmp_path_factory):
    directory = tmp_path_factory.mktemp("xlnet")
    tiny_model(n_labels=3).save_pretrained(directory)
    write_graphs(directory)
    return directory


@pytest.fixture(scope="module", params=[XLNET, *sorted(BUNDLED)])
def directory(request, xlnet_directory):
    return xlnet_directory if request.param == XLNET else BUNDLED[request.param]


@pytest.fixture(scope="module")
def networks(directory):
    return TorchNetwork.from_pretrained(directory), OnnxNetwork(directory, threads=1)


@pytest.fixture(scope="module")
def ask(directory, xlnet_directory):
    """Make a problem for this model."""
    vocabulary = load_config(directory).vocab_size

    def problem(seed: int, batch: int, n: int, n_queries: int) -> Problem:
        return random_problem(seed, vocabulary, batch, n, n_queries, segments=directory == xlnet_directory)

    return problem


def in_one_pass(network, problem):
    return network.advance(problem.ids, problem.relation, n_read=problem.n_queries)[0]


def assert_near(found, expected):
    assert found.shape == expected.shape
    assert found.dtype == np.float32
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-4)


def flat(states):
    return states.reshape(-1, states.shape[-1])


@pytest.mark.parametrize(
    ("batch", "n", "n_queries"), [(1, 1, 1), (1, 9, 2), (3, 20, 1), (7, 13, 5), (2, 90, 3), (1, 300, 2)]
)
def test_one_pass(networks, ask, batch, n, n_queries):
    problem = ask(n, batch, n, n_queries)
    expected, found = (in_one_pass(network, problem) for network in networks)
    assert_near(found, expected)
    theirs, ours = networks
    assert_near(ours.logprobs(flat(found)), theirs.logprobs(flat(expected)))


@pytest.mark.parametrize(("batch", "n", "n_queries"), [(1, 12, 3), (5, 30, 2), (2, 70, 1)])
def test_context_first_then_a_token_a_step(networks, ask, batch, n, n_queries):
    """Over a cache that grows, of which sequences are selected on the way, some of them twice."""
    problem = ask(n, batch, n, n_queries)
    n_context = n // 2
    order = np.random.default_rng(n).integers(0, batch, batch + 1)
    expected, found = [], []
    for network, answers in zip(networks, (expected, found), strict=True):
        context = problem.part(0, n_context, slice(0))
        states, cache = network.advance(context.ids, context.relation, n_read=0)
        assert states.shape == (batch, 0, network.config.d_model)
        for size in range(n_context, n + 1):
            if size == n_context + 2:
                cache, problem_now = cache.select(order), problem[order]
            else:
                problem_now = problem if size < n_context + 2 else problem[order]
            assert cache.size == max(size - 1, n_context)
            # In the first step there is no token to append.
            step = problem_now.part(max(size - 1, n_context), size, slice(None))
            states, cache = network.advance(step.ids, step.relation, n_read=n_queries, cache=cache)
            answers.append(states)
    for step_expected, step_found in zip(expected, found, strict=True):
        assert_near(step_found, step_expected)
    assert_near(found[-1], in_one_pass(networks[0], problem[order]))  # and all that is what one pass gives


def test_batch_of_1_against_64_shuffled(networks, ask):
    _, ours = networks
    problem = ask(0, 64, 17, 3)
    together = in_one_pass(ours, problem)
    order = np.random.default_rng(1).permutation(64)
    assert_near(in_one_pass(ours, problem[order]), together[order])
    for row in range(0, 64, 9):
        assert_near(in_one_pass(ours, problem[[row]]), together[[row]])


def test_answers_are_the_same_to_the_last_bit_after_a_longer_text(networks, ask):
    _, ours = networks
    problem = ask(3, 2, 9, 2)
    before = in_one_pass(ours, problem)
    in_one_pass(ours, ask(4, 1, 700, 1))
    assert np.array_equal(in_one_pass(ours, problem), before)


def test_wanted_logprobs_are_those_of_the_whole_vocabulary(networks, ask):
    random = np.random.default_rng(0)
    states = flat(in_one_pass(networks[0], ask(5, 50, 4, 3)))  # more than are computed at once
    rows, tokens = random.integers(0, len(states), 400), random.integers(0, networks[0].config.vocab_size, 400)
    for network in networks:
        wanted = network.wanted_logprobs(states, rows, tokens)
        assert_near(wanted, network.logprobs(states)[rows, tokens])
        nothing = np.array([], dtype=np.int64)
        assert network.wanted_logprobs(states, nothing, nothing).shape == (0,)


def test_classify(networks, ask):
    theirs, ours = networks
    if not ours.config.n_labels:
        pytest.skip("this model has no classifier")
    problem = ask(6, 5, 12, 0)
    states = theirs.advance(problem.ids, problem.relation, n_read=1)[0][:, 0]
    expected = theirs.classify(states)
    assert_near(ours.classify(states), expected)
    np.testing.assert_allclose(expected.sum(1), 1, atol=1e-5)


def test_int8_is_near_and_depends_on_no_neighbour(directory, networks, ask):
    theirs, _ = networks
    int8 = OnnxNetwork(directory, int8=True, threads=1)
    problem = ask(7, 40, 12, 2)
    expected, states = in_one_pass(theirs, problem), in_one_pass(int8, problem)
    exact, rounded = theirs.logprobs(flat(expected)), int8.logprobs(flat(states))
    assert np.abs(exact - rounded).mean() < 0.25
    assert not np.allclose(exact, rounded, atol=1e-3)  # it does compute otherwise
    order = np.random.default_rng(1).permutation(40)
    assert_near(in_one_pass(int8, problem[order]), states[order])
    assert_near(in_one_pass(int8, problem[[3]]), states[[3]])
