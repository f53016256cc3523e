"""The model against Hugging Face's XLNet, and the properties that make q(y | left ↓ right) one number."""

import itertools
import json
from unittest import mock

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.nn import functional as F
from transformers import AutoModel, XLNetConfig, XLNetForSequenceClassification, XLNetLMHeadModel

import xl_editor.hf as hf
from conftest import tiny_model
from xl_editor.errors import ModelError
from xl_editor.geometry import Relation, concatenate, inserted_places, insertion_places, plain_places, relate, stack
from xl_editor.model import ACTIVATIONS, Dropout, RelativeAttention, XLEditorConfig, XLEditorModel
from xl_editor.models import find_model

VOCAB = 31


# --- a problem: left, y, right -------------------------------------------------------------------------------


def logprobs(model, problems, pad_to: int = 0) -> list[torch.Tensor]:
    """Log q̂ of every token of y ⊕ END, for a batch of (left, y, right); END has the id VOCAB − 1."""
    places = [insertion_places(len(left + y + right), [(len(left), len(left + y))]) for left, y, right in problems]
    size = max(pad_to, *(len(content) for content, _ in places))
    contents = stack([content for content, _ in places] + [plain_places(size)])[:-1]
    queries = stack([query for _, query in places])
    ids = torch.zeros(len(problems), size, dtype=torch.long)
    for row, (left, y, right) in enumerate(problems):
        ids[row, : len(left + y + right)] = torch.tensor(left + y + right)
    with torch.no_grad():
        states, _ = model.advance(ids, relate(contents, queries), n_read=len(queries))
        log_q = model.logits(states).log_softmax(-1)
    targets = [[*y, VOCAB - 1] for _, y, _ in problems]
    return [log_q[row, torch.arange(len(t)), torch.tensor(t)] for row, t in enumerate(targets)]


tokens = st.integers(0, VOCAB - 2)
sequences = st.lists(tokens, max_size=5)
problems = st.tuples(sequences, sequences, st.lists(tokens, min_size=1, max_size=5))


# --- parity with Hugging Face --------------------------------------------------------------------------------


def reference(seed: int = 0, cls=XLNetLMHeadModel, **extra):
    torch.manual_seed(seed)
    config = XLNetConfig(vocab_size=VOCAB, d_model=32, n_layer=3, n_head=4, d_inner=48, dropout=0.0, **extra)
    model = cls(config).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.normal_(std=0.3)
    return model


def random_permutation_problem(seed: int, batch: int = 3, size: int = 9, n_targets: int = 4):
    """A random perm_mask, target_mapping, padding and segments; each query row sees at least one key."""
    torch.manual_seed(seed)
    ids = torch.randint(0, VOCAB, (batch, size))
    segments = torch.randint(0, 2, (batch, size))
    padding = torch.zeros(batch, size)
    for row in range(batch):
        padding[row, : row % 3] = 1  # XLNet pads on the left
    hidden = (torch.rand(batch, size, size) < 0.4).float()
    hidden[:, torch.arange(size), (torch.arange(size) + 1) % size] = 0
    hidden[:, :, -2:] = torch.where(torch.eye(size, dtype=torch.bool)[:, -2:], hidden[:, :, -2:], 0.0)
    targets = torch.stack([3 + torch.randperm(size - 3)[:n_targets] for _ in range(batch)])
    return ids, segments, padding, hidden, targets


def our_relation(segments, padding, hidden, targets) -> Relation:
    size = hidden.shape[-1]
    index = torch.arange(size)
    sees = ~((hidden + padding[:, None]) > 0)
    other = segments[:, :, None] != segments[:, None, :]
    distance = (index[:, None] - index).expand_as(hidden)

    def with_queries(content, queries):
        picked = queries.gather(1, targets[..., None].expand(-1, -1, size))
        return torch.cat([content, picked], dim=1)

    content_sees = sees | torch.eye(size, dtype=torch.bool)  # the content stream always sees itself
    return Relation(with_queries(distance, distance), with_queries(content_sees, sees), with_queries(other, other))


@pytest.mark.parametrize(("seed", "activation"), [*((seed, "gelu") for seed in range(5)), (0, "relu"), (0, "gelu_new")])
def test_logits_and_gradients_equal_hugging_faces(seed, activation, tmp_path):
    theirs = reference(seed, ff_activation=activation)
    theirs.save_pretrained(tmp_path)
    ours = XLEditorModel.from_pretrained(tmp_path)
    ids, segments, padding, hidden, targets = random_permutation_problem(seed)
    expected = theirs(
        input_ids=ids,
        perm_mask=hidden,
        target_mapping=F.one_hot(targets, ids.shape[1]).float(),
        input_mask=padding,
        token_type_ids=segments,
    ).logits
    states, _ = ours.advance(ids, our_relation(segments, padding, hidden, targets), n_read=targets.shape[1])
    logits = ours.logits(states)
    torch.testing.assert_close(logits, expected, atol=1e-5, rtol=0)

    direction = torch.randn_like(expected)
    (expected * direction).sum().backward()
    (logits * direction).sum().backward()
    grads = dict(theirs.named_parameters())
    for name, parameter in ours.named_parameters():
        scale = max(1.0, float(grads[name].grad.abs().max()))
        torch.testing.assert_close(parameter.grad / scale, grads[name].grad / scale, atol=1e-4, rtol=0, msg=name)


@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_dropout_in_the_place_of_what_it_falls_on_has_the_same_gradient(activation):
    dropout, gradients = Dropout(0.5).train(), []
    for drop in (dropout, dropout.overwrite):
        torch.manual_seed(0)
        x = torch.linspace(-2, 2, 60, requires_grad=True)
        drop(ACTIVATIONS[activation](x)).pow(2).sum().backward()
        gradients.append(x.grad)
    assert gradients[0].count_nonzero() not in (0, 60)
    torch.testing.assert_close(*gradients)


def test_classification_head_equals_hugging_faces(tmp_path):
    theirs = reference(cls=XLNetForSequenceClassification, num_labels=3)
    ours = tiny_model(n_labels=3)
    ours.load_state_dict(theirs.state_dict(), strict=False)
    ids = torch.randint(0, VOCAB, (4, 7))
    places = stack([plain_places(7)] * 4)
    states, _ = ours.advance(ids, relate(places, places[:, :0], plain=True), n_read=1)
    torch.testing.assert_close(ours.labels(states)[:, 0], theirs(ids).logits, atol=1e-5, rtol=0)


def test_checkpoints_travel_both_ways(tmp_path):
    ours = tiny_model(end_token_id=30, editor={"note": "kept"})
    ours.save_pretrained(tmp_path)
    theirs = XLNetLMHeadModel.from_pretrained(tmp_path).eval()
    again = XLEditorModel.from_pretrained(tmp_path)
    assert again.config == ours.config
    ids = torch.randint(0, VOCAB, (2, 6))
    places = stack([plain_places(6)] * 2)
    for mine in (ours, again):
        states, _ = mine.advance(ids, relate(places, places[:, :0], plain=True), n_read=6)
        torch.testing.assert_close(mine.logits(states), theirs(ids).logits, atol=1e-5, rtol=0)


def test_hf_wrapper_round_trips_through_the_auto_classes(tmp_path):
    ours = tiny_model(end_token_id=30, n_labels=2)
    ours.save_pretrained(tmp_path / "plain")
    wrapped = hf.XLEditorForInsertion.from_pretrained(tmp_path / "plain").eval()
    wrapped.save_pretrained(tmp_path / "wrapped")
    auto = AutoModel.from_pretrained(tmp_path / "wrapped").eval()
    assert isinstance(auto, hf.XLEditorForInsertion)
    content, queries = (stack([p]) for p in insertion_places(6, [(2, 4)]))
    ids, relation = torch.randint(0, VOCAB, (1, 6)), relate(content, queries)
    states, _ = ours.advance(ids, relation, n_read=3)
    for other in (wrapped, auto):
        torch.testing.assert_close(other(ids, relation, n_read=3).logits, ours.logits(states))
    reloaded = XLEditorModel.from_pretrained(tmp_path / "wrapped")
    assert all(torch.equal(a, b) for a, b in zip(ours.parameters(), reloaded.parameters(), strict=True))


def test_xlnet_base_has_its_116_750_336_parameters():
    with torch.device("meta"):
        model = XLEditorModel(XLEditorConfig(d_model=768, n_layer=12, n_head=12, d_inner=3072))
    assert sum(p.numel() for p in model.parameters()) == 116_750_336  # the tied matrix counts once
    with torch.device("meta"):
        XLEditorModel(XLEditorConfig(d_model=1024, n_layer=24, n_head=16, d_inner=4096))


def test_added_tokens_leave_the_old_ones_as_they_were():
    ours = tiny_model()
    before = ours.transformer.word_embedding.weight.clone()
    assert ours.add_tokens(3) == range(VOCAB, VOCAB + 3)
    assert ours.lm_loss.weight is ours.transformer.word_embedding.weight
    assert torch.equal(ours.lm_loss.weight[:VOCAB], before)
    assert ours.config.vocab_size == VOCAB + 3 == len(ours.lm_loss.bias)


# --- properties ----------------------------------------------------------------------------------------------


@settings(max_examples=40, deadline=None)
@given(problems, sequences)
def test_a_prediction_does_not_depend_on_what_or_how_much_follows(model, problem, other):
    left, y, right = problem
    (whole,) = logprobs(model, [(left, y + other, right)])
    for k in range(len(y)):
        (changed,) = logprobs(model, [(left, [*y[: k + 1], *other, *other], right)])
        torch.testing.assert_close(whole[: k + 1], changed[: k + 1], atol=1e-5, rtol=0)


@settings(max_examples=25, deadline=None)
@given(problems, st.lists(tokens, min_size=1, max_size=4))
def test_context_states_do_not_change_with_y(model, problem, other):
    left, y, right = problem

    def context_keys(inserted):
        size = len(left + inserted + right)
        content, queries = insertion_places(size, [(len(left), len(left + inserted))])
        content, queries = stack([content]), stack([queries])
        _, cache = model.advance(torch.tensor([left + inserted + right]), relate(content, queries), n_read=len(queries))
        return [layer.now[:, :, (content.slot[0] < 0)] for layer in cache.keys]

    for a, b in zip(context_keys(y), context_keys(other), strict=True):
        torch.testing.assert_close(a, b, atol=1e-5, rtol=0)


@settings(max_examples=25, deadline=None)
@given(st.lists(problems, min_size=2, max_size=5), st.randoms(use_true_random=False), st.integers(0, 20))
def test_padding_order_and_batch_size_change_nothing(model, batch, random, pad_to):
    alone = [logprobs(model, [problem])[0] for problem in batch]
    order = random.sample(range(len(batch)), len(batch))
    together = logprobs(model, [batch[i] for i in order], pad_to=pad_to)
    for row, i in enumerate(order):
        torch.testing.assert_close(together[row], alone[i], atol=1e-5, rtol=0)


def test_probabilities_of_all_insertions_sum_to_one():
    """Vocabulary {0, 1, END}: every y up to length n, plus 'longer', has all the probability there is."""
    model, end, n = tiny_model(vocab_size=3), 2, 4
    left, right = [0, 1], [1]
    total = 0.0
    for length in range(n + 1):
        for y in itertools.product([0, 1], repeat=length):
            content, queries = insertion_places(3 + length, [(2, 2 + length)])
            content, queries = stack([content]), stack([queries])
            with torch.no_grad():
                states, _ = model.advance(
                    torch.tensor([[*left, *y, *right]]), relate(content, queries), n_read=length + 1
                )
                q = model.logits(states)[0].double().softmax(-1)
            inserted = torch.tensor([float(q[k, token]) for k, token in enumerate(y)]).prod()
            total += float(inserted * q[length, end])
            if length == n:
                total += float(inserted * (1 - q[length, end]))  # "longer"
    assert total == pytest.approx(1, abs=1e-6)


# --- incremental equals parallel -----------------------------------------------------------------------------


@settings(max_examples=40, deadline=None)
@given(problems)
def test_incremental_equals_parallel(model, problem):
    left, y, right = problem
    (expected,) = logprobs(model, [problem])
    context, _ = insertion_places(len(left + right), [(len(left), len(left))])
    content = stack([context])
    with torch.no_grad():
        _, cache = model.advance(torch.tensor([left + right]), relate(content, content[:, :0]), n_read=0)
        keys, appended, found = content, [], []
        for k, target in enumerate([*y, VOCAB - 1]):
            new = stack([inserted_places(len(left), range(k - len(appended), k))])
            query = stack([inserted_places(len(left), range(k, k + 1))])
            keys = concatenate([keys, new])
            ids = torch.tensor([appended], dtype=torch.long)
            states, cache = model.advance(ids, relate(new, query, keys), n_read=1, cache=cache)
            found.append(model.logits(states).log_softmax(-1)[0, 0, target])
            appended = [target]
    torch.testing.assert_close(torch.stack(found), expected, atol=1e-5, rtol=0)


@settings(max_examples=25, deadline=None)
@given(st.lists(tokens, min_size=6, max_size=9), st.integers(1, 2), st.integers(0, 2))
def test_incremental_equals_parallel_with_two_slots(model, text, first, second):
    """Two slots advance together, a token each a step, and give what one pass over both gives."""
    intervals = [(1, 1 + first), (4, 4 + second)]
    content, queries = (stack([p]) for p in insertion_places(len(text), intervals))
    ids = torch.tensor([text])
    with torch.no_grad():
        states, _ = model.advance(ids, relate(content, queries), n_read=len(queries))
        expected = model.logits(states)
        is_context = content.slot[0] < 0
        keys = content[:, is_context]
        _, cache = model.advance(ids[:, is_context], relate(keys, keys[:, :0]), n_read=0)
        for k in range(max(first, second) + 1):
            now = queries.offset[0] == k
            new = (content.slot[0] >= 0) & (content.offset[0] == k - 1)
            keys = concatenate([keys, content[:, new]])
            states, cache = model.advance(
                ids[:, new], relate(content[:, new], queries[:, now], keys), n_read=int(now.sum()), cache=cache
            )
            torch.testing.assert_close(model.logits(states), expected[:, now], atol=1e-5, rtol=0)


@pytest.mark.parametrize("gradients", [False, True])
def test_a_cache_grows_in_place_and_a_copy_goes_its_own_way(model, gradients):
    """Over several of the caches' rooms, and from one context on in two ways."""
    y = {"this": [(7 * k) % (VOCAB - 1) for k in range(70)], "other": [(5 * k + 3) % (VOCAB - 1) for k in range(70)]}
    left, right = [1, 2, 3], [4, 5]
    places = stack([insertion_places(5, [(3, 3)])[0]])
    with torch.set_grad_enabled(gradients):
        _, cache = model.advance(torch.tensor([left + right]), relate(places, places[:, :0]), n_read=0)
        going_on = {"this": cache, "other": cache.select(torch.tensor([0]))}
        keys, found = places, {"this": [], "other": []}
        for k in range(70):
            new, query = (stack([inserted_places(3, range(at, at + 1))]) for at in (k, k + 1))
            keys = concatenate([keys, new])
            for which, cache in going_on.items():
                ids = torch.tensor([[y[which][k]]])
                states, _ = model.advance(ids, relate(new, query, keys), n_read=1, cache=cache)
                found[which].append(model.logits(states).log_softmax(-1)[0, 0, (y[which] + [VOCAB - 1])[k + 1]])
    for which, inserted in y.items():
        (expected,) = logprobs(model, [(left, inserted, right)])
        torch.testing.assert_close(torch.stack(found[which]), expected[1:], atol=1e-5, rtol=0)
    with pytest.raises(ModelError, match="does not fit"):  # what was known before the cache grew is out of date
        model.advance(ids, relate(new, query, keys), n_read=1, cache=cache)


@pytest.mark.parametrize("n_layer", [1, 3])
def test_what_is_saved_without_gradients_changes_no_answer(n_layer):
    """First-layer products once a token, positions from memory: the same states, whatever happens to the weights."""
    model = tiny_model(n_layer=n_layer)
    ids = torch.tensor([[3, 4, 3, 3, 5, 4, 3]])
    content, queries = (stack([p]) for p in insertion_places(7, [(2, 4)]))
    relation = relate(content, queries)
    for change in (lambda: None, lambda: model.transformer.layer[0].rel_attn.r.mul_(2), model.double):
        with torch.no_grad():
            change()
            found, _ = model.advance(ids, relation, n_read=4)
        expected, _ = model.advance(ids, relation, n_read=4)
        torch.testing.assert_close(found, expected, atol=1e-5, rtol=0)


def test_answers_are_the_same_to_the_last_bit_after_a_longer_text():
    model = tiny_model()

    def ask(size):
        content, queries = (stack([p]) for p in insertion_places(size, [(2, 4)]))
        with torch.no_grad():
            return model.advance(torch.arange(size)[None] % VOCAB, relate(content, queries), n_read=3)[0]

    before = ask(9)
    ask(300)
    assert torch.equal(ask(9), before)


def test_positions_are_not_remembered_across_a_step_of_an_optimiser():
    model = tiny_model(VOCAB)
    problem = [([1, 2], [3], [4, 5])]
    logprobs(model, problem)
    model.train()
    content, queries = (stack([places]) for places in insertion_places(5, [(2, 3)]))
    states, _ = model.advance(torch.tensor([[1, 2, 3, 4, 5]]), relate(content, queries), n_read=2)
    states.square().sum().backward()
    torch.optim.AdamW(model.parameters(), lr=0.1, fused=True).step()  # which leaves the weights' versions as they are
    model.eval()
    after = logprobs(model, problem)
    fresh = tiny_model(VOCAB)
    fresh.load_state_dict(model.state_dict())
    torch.testing.assert_close(after, logprobs(fresh, problem))


@pytest.mark.parametrize("dropout", [0.0, 0.1])
def test_under_autocast_the_rows_that_layers_hand_on_stay_float32(dropout):
    model = tiny_model(VOCAB, dropout=dropout).train()
    handed_on = []
    for layer in model.transformer.layers():
        layer.ff.register_forward_hook(lambda _, given, rows: handed_on.extend([given[0].dtype, rows.dtype]))
    content, queries = (stack([places]) for places in insertion_places(5, [(2, 3)]))
    with torch.autocast("cpu", torch.bfloat16):
        model.advance(torch.tensor([[1, 2, 3, 4, 5]]), relate(content, queries), n_read=2)
    assert set(handed_on) == {torch.float32}


def test_the_last_layer_computes_only_the_rows_that_are_read():
    """By shape: attention sees 20 + 3 rows in every layer but the last, where it sees the 3 that are read."""
    model = tiny_model()
    content, queries = (stack([p]) for p in insertion_places(20, [(5, 7)]))
    with mock.patch.object(RelativeAttention, "forward", autospec=True, side_effect=RelativeAttention.forward) as seen:
        model.advance(torch.zeros(1, 20, dtype=torch.long), relate(content, queries), n_read=3)
        assert [call.args[1].shape[1] for call in seen.call_args_list] == [23, 23, 3]
        seen.reset_mock()
        model.advance(torch.zeros(1, 20, dtype=torch.long), relate(content, queries[:, :0]), n_read=0)
        assert [call.args[1].shape[1] for call in seen.call_args_list] == [20, 20]


# --- bad input -----------------------------------------------------------------------------------------------


def relation_of(batch: int, rows: int, keys: int) -> Relation:
    return Relation(torch.zeros(batch, rows, keys, dtype=torch.long), torch.ones(batch, rows, keys, dtype=torch.bool))


@pytest.mark.parametrize(
    ("ids", "relation", "n_read", "message"),
    [
        (torch.zeros(4, dtype=torch.long), relation_of(1, 4, 4), 1, "wants ids"),
        (torch.zeros(0, 4, dtype=torch.long), relation_of(0, 4, 4), 1, "empty batch"),
        (torch.zeros(2, 0, dtype=torch.long), relation_of(2, 0, 0), 0, "empty batch"),
        (torch.zeros(2, 4, dtype=torch.long), relation_of(2, 4, 5), 1, "does not fit 2 sequences of 4 new"),
        (torch.zeros(2, 4, dtype=torch.long), relation_of(1, 4, 4), 1, "does not fit"),
        (torch.zeros(2, 4, dtype=torch.long), relation_of(2, 3, 4), 1, "does not fit"),
        (torch.zeros(2, 4, dtype=torch.long), relation_of(2, 4, 4), 5, r"n_read must lie within 0\.\.4"),
        (torch.full((1, 4), VOCAB), relation_of(1, 4, 4), 1, r"within 0\.\.30, got 31\.\.31"),
        (torch.full((1, 4), -1), relation_of(1, 4, 4), 1, r"got -1\.\.-1"),
    ],
)
def test_bad_requests_are_refused(model, ids, relation, n_read, message):
    with pytest.raises(ModelError, match=message):
        model.advance(ids, relation, n_read=n_read)


def test_no_classification_head_is_said(model):
    with pytest.raises(ModelError, match="no classification head"):
        model.labels(torch.zeros(1, 32))


def test_bad_checkpoints_are_refused(tmp_path):
    def refused(message: str) -> None:
        with pytest.raises(ModelError, match=message):
            XLEditorModel.from_pretrained(tmp_path)

    refused("holds no config.json")
    config = tmp_path / "config.json"
    config.write_text("{")
    refused("not valid JSON")
    config.write_text("[]")
    refused("must hold a JSON object")
    config.write_text(json.dumps({"model_type": "bert"}))
    refused("type 'bert', not an XLNet")
    config.write_text(json.dumps({"model_type": "xlnet", "attn_type": "uni"}))
    refused("attn_type = 'uni'")
    config.write_text(json.dumps({"model_type": "xlnet", "d_model": 30, "n_head": 4}))
    refused("d_model .30. must be a multiple")
    tiny_model().save_pretrained(tmp_path)
    weights = tmp_path / "model.safetensors"
    whole = weights.read_bytes()
    weights.write_bytes(whole[: len(whole) // 2])
    refused("not a readable safetensors file")
    weights.unlink()
    refused("holds no model.safetensors")
    tiny_model(d_inner=64).save_pretrained(tmp_path / "other")
    weights.write_bytes((tmp_path / "other" / "model.safetensors").read_bytes())
    refused("but config.json asks for")
    tiny_model(n_layer=2).save_pretrained(tmp_path / "other")
    weights.write_bytes((tmp_path / "other" / "model.safetensors").read_bytes())
    refused("lacks 1[0-9] weights")


def test_unknown_names_are_one_sentence(tmp_path):
    with pytest.raises(ModelError, match="not a directory with a model"):
        find_model(tmp_path / "nowhere")
