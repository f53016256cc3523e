"""Objectives: the loss is what the engine calls −log q, to the letter, whatever shares the batch."""

import math
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from torch.nn import functional as F
from transformers import MarianConfig, MarianMTModel

from conftest import SPECIAL, STYLES, tiny_engine, tiny_model
from xl_editor.context import ContextFormat
from xl_editor.engine import Context, Insertion
from xl_editor.geometry import plain_places, relate, stack
from xl_editor.training.objectives import (
    IGNORED,
    Correction,
    Examples,
    InsertionObjective,
    Seq2SeqObjective,
    SummedCrossEntropy,
    summed_cross_entropy,
)
from xl_editor.training.sampling import Slots

END, WORDS = 5, (6, 7, 8, 9)


def examples_of(*rows, labels=None) -> Examples:
    """Each row is (tokens, intervals, style)."""
    most = max(len(intervals) for _, intervals, _ in rows)
    starts, ends = np.zeros((2, len(rows), most), np.int32)
    for row, (_, intervals, _) in enumerate(rows):
        for slot, (start, end) in enumerate(intervals):
            starts[row, slot], ends[row, slot] = start, end
    counts = np.array([len(intervals) for _, intervals, _ in rows], np.int32)
    tokens = [np.array(tokens, np.uint16) for tokens, _, _ in rows]
    styles = [style for _, _, style in rows]
    return Examples(tokens, Slots(starts, ends, counts), styles, labels)


def random_rows(seed: int, n: int = 12, max_slots: int = 3) -> list:
    random = np.random.default_rng(seed)
    rows = []
    for _ in range(n):
        size = int(random.integers(1, 10))
        tokens = random.choice(WORDS, size).tolist()
        n_slots = int(random.integers(1, max_slots + 1))
        bounds = sorted(random.integers(0, size + 1, 2 * n_slots).tolist())  # empty slots included
        intervals = list(zip(bounds[::2], bounds[1::2], strict=True))
        rows.append((tokens, intervals, [None, *STYLES][random.integers(0, 3)]))
    return rows


def insertions(tokens, intervals, style) -> list[Insertion]:
    """What is asked about a sequence: each of its slots, while the others stay open."""
    bounds = [0, *(bound for interval in intervals for bound in interval), len(tokens)]
    parts = tuple(tuple(tokens[a:b]) for a, b in zip(bounds[::2], bounds[1::2], strict=True))
    return [
        Insertion(Context(parts, style, slot), tuple(tokens[start:end])) for slot, (start, end) in enumerate(intervals)
    ]


# --- the summed cross-entropy ----------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("n_rows", [1, 256, 700])
def test_summed_cross_entropy_is_torchs(dtype, n_rows):
    torch.manual_seed(0)
    targets = torch.randint(0, 31, (n_rows,))
    values = torch.randn(n_rows, 8, dtype=dtype), torch.randn(31, 8, dtype=dtype), torch.randn(31, dtype=dtype)
    ours, theirs = ([value.clone().requires_grad_() for value in values] for _ in range(2))
    loss = summed_cross_entropy(ours[0], SimpleNamespace(weight=ours[1], bias=ours[2]), targets)
    expected = F.cross_entropy(theirs[0] @ theirs[1].t() + theirs[2], targets, reduction="sum")
    torch.testing.assert_close(loss, expected, rtol=1e-5, atol=1e-5)
    (3 * loss / n_rows).backward()
    (3 * expected / n_rows).backward()
    for mine, its in zip(ours, theirs, strict=True):
        torch.testing.assert_close(mine.grad, its.grad, rtol=1e-5, atol=1e-5)
    with torch.no_grad():
        head = SimpleNamespace(weight=ours[1], bias=ours[2])
        torch.testing.assert_close(summed_cross_entropy(ours[0], head, targets), expected, rtol=1e-5, atol=1e-5)


def test_under_autocast_only_the_factors_are_rounded():
    torch.manual_seed(0)
    targets = torch.randint(0, 31, (300,))
    states, weight, bias = torch.randn(300, 8), torch.randn(31, 8), torch.randn(31)
    ours = [value.clone().requires_grad_() for value in (states, weight, bias)]
    theirs = [value.bfloat16().float().requires_grad_() for value in (states, weight, bias)]
    with torch.autocast("cpu", torch.bfloat16):
        loss = summed_cross_entropy(ours[0], SimpleNamespace(weight=ours[1], bias=ours[2]), targets)
    expected = F.cross_entropy(theirs[0] @ theirs[1].t() + theirs[2], targets, reduction="sum")
    assert loss.dtype == torch.float32
    torch.testing.assert_close(loss, expected, rtol=2e-3, atol=0)
    loss.backward()
    expected.backward()
    for mine, its in zip(ours, theirs, strict=True):
        assert mine.grad.dtype == torch.float32
        assert (mine.grad - its.grad).norm() < 0.01 * its.grad.norm()


def test_summed_cross_entropy_has_the_gradients_of_its_value(monkeypatch):
    monkeypatch.setattr(SummedCrossEntropy, "ROWS_AT_ONCE", 3)
    torch.manual_seed(0)
    states, weight, bias = (
        torch.randn(*shape, dtype=torch.double, requires_grad=True) for shape in ((7, 4), (5, 4), (5,))
    )
    targets = torch.randint(0, 5, (7,))
    assert torch.autograd.gradcheck(
        lambda *inputs: SummedCrossEntropy.apply(*inputs, targets, True), (states, weight, bias)
    )


# --- insertion -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("xlnet", [False, True])
@pytest.mark.parametrize("seed", range(3))
def test_the_loss_is_what_the_engine_scores(seed, xlnet):
    engine = tiny_engine()
    engine.format = ContextFormat(**SPECIAL, styles=STYLES, xlnet=xlnet)
    objective = InsertionObjective(engine.model, engine.format)
    rows = random_rows(seed)
    asked = [insertion for row in rows for insertion in insertions(*row)]
    expected = -sum(scored.logprob for scored in engine.score(asked))
    n_targets = sum(len(insertion.inserted) + 1 for insertion in asked)
    with torch.no_grad():
        output = objective(**objective.collate(examples_of(*rows)))
    assert float(output["nll"]) == pytest.approx(expected, rel=1e-5)
    assert float(output["loss"]) == pytest.approx(expected / n_targets, rel=1e-5)


def random_corrections(seed: int, n: int = 8) -> list[Correction]:
    random = np.random.default_rng(seed)

    def some(most: int) -> tuple[int, ...]:
        return tuple(random.choice(WORDS, random.integers(0, most + 1)).tolist())

    corrections = []
    for _ in range(n):
        words = [some(2) or (6,) for _ in range(random.integers(1, 6))]
        slots = [
            (slot, words[slot - 1] if slot and random.random() < 0.5 else some(3)) for slot in range(len(words) + 1)
        ]
        corrections.append(Correction(words, [pair for pair in slots if random.random() < 0.7] or slots))
    return corrections


@pytest.mark.parametrize("xlnet", [False, True])
@pytest.mark.parametrize("seed", range(3))
def test_a_correction_is_an_insertion_with_a_slot_behind_every_word(seed, xlnet):
    """The control token stands where a style token would; so the engine, asked slot by slot, gives the same."""
    engine = tiny_engine()
    control = STYLES["positive"]
    engine.format = ContextFormat(**SPECIAL, styles=STYLES, xlnet=xlnet)
    objective = InsertionObjective(
        engine.model, ContextFormat(**SPECIAL, xlnet=xlnet, correct=control), change_weight=3
    )
    corrections = random_corrections(seed)
    expected, n_targets = 0.0, 0
    for correction in corrections:
        parts = ((), *correction.words, ())
        for slot, inserted in correction.slots:
            (scored,) = engine.score([Insertion(Context(parts, "positive", slot), inserted)])
            kept = inserted == ((), *correction.words)[slot]
            expected -= scored.logprob * (1 if kept else 3)
            n_targets += len(inserted) + 1
    with torch.no_grad():
        output = objective(**objective.collate_corrections(corrections))
    assert float(output["loss"]) == pytest.approx(expected / n_targets, rel=1e-5)


@pytest.mark.parametrize("weighted", [False, True])
def test_weights_of_targets_reach_the_gradient(weighted):
    torch.manual_seed(0)
    head = torch.nn.Linear(8, 11)
    states = torch.randn(700, 8, requires_grad=True)  # more than one chunk
    targets = torch.randint(11, (700,))
    weights = torch.rand(700) if weighted else None
    (summed_cross_entropy(states, head, targets, weights) * 0.5).backward()
    found = [states.grad, head.weight.grad, head.bias.grad]
    states.grad = head.weight.grad = head.bias.grad = None
    each = F.cross_entropy(head(states), targets, reduction="none")
    ((each if weights is None else each * weights).sum() * 0.5).backward()
    for ours, theirs in zip(found, [states.grad, head.weight.grad, head.bias.grad], strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-5)


def test_every_slot_is_predicted_with_its_end():
    objective = InsertionObjective(tiny_engine().model, ContextFormat(**SPECIAL))
    batch = objective.collate(
        examples_of(([6, 7, 8, 9], [(0, 1), (2, 2), (3, 4)], None), ([6], [(0, 1)], None), ([8, 9], [(1, 1)], None))
    )
    assert [[label for label in row if label != IGNORED] for row in batch["labels"].tolist()] == [
        [6, END, END, 9, END],
        [6, END],
        [END],
    ]


@pytest.mark.parametrize(
    ("xlnet", "styled", "unstyled"),
    [(False, (STYLES["positive"],), (SPECIAL["sep"],)), (True, (STYLES["positive"], 3, 2), (3, 2))],
)
def test_the_style_stands_at_the_right_end(xlnet, styled, unstyled):
    objective = InsertionObjective(tiny_engine().model, ContextFormat(**SPECIAL, styles=STYLES, xlnet=xlnet))
    rows = examples_of(([6, 7], [(0, 1)], "positive"), ([6, 7], [(0, 1)], None))
    batch = objective.collate(rows)
    with_style, without = (row[slot != -2].tolist() for row, slot in zip(batch["ids"], batch["slot"], strict=True))
    assert with_style == [6, 7, *styled]
    assert without == [6, 7, *unstyled]


def test_left_to_right_is_plain_and_has_no_end():
    model = tiny_model(vocab_size=12, end_token_id=END)
    format = ContextFormat(**SPECIAL)
    objective = InsertionObjective(model, format, plain=True)
    rows = [(tokens, intervals, None) for tokens, intervals, _ in random_rows(0, max_slots=1)]
    rows = [row for row in rows if row[1][0][0] < row[1][0][1]]
    batch = objective.collate(examples_of(*rows))
    assert END not in batch["labels"]
    expected = 0.0
    for tokens, [(start, end)], _ in rows:
        ids = torch.tensor([[*tokens, *format.right_end(None)]])
        places = stack([plain_places(ids.shape[1], [(start, end)])])
        relation = relate(places, places[:, start:end], plain=True)
        with torch.no_grad():
            states, _ = model.advance(ids, relation, n_read=end - start)
            expected += float(F.cross_entropy(model.logits(states[0]), ids[0, start:end], reduction="sum"))
    with torch.no_grad():
        assert float(objective(**batch)["nll"]) == pytest.approx(expected, rel=1e-5)


@pytest.mark.parametrize("xlnet", [False, True])
def test_the_classifier_adds_its_weighted_loss(xlnet):
    engine = tiny_engine()
    engine.format = ContextFormat(**SPECIAL, styles=STYLES, xlnet=xlnet)
    rows = random_rows(1)
    labels = np.random.default_rng(0).integers(0, 2, len(rows))
    weight = 2.5
    objective = InsertionObjective(engine.model, engine.format, classifier_weight=weight)
    with torch.no_grad():
        plain = objective(**objective.collate(examples_of(*rows)), num_items_in_batch=10)
        both = objective(**objective.collate(examples_of(*rows, labels=labels)), num_items_in_batch=10)
    probabilities = [list(found.values()) for found in engine.classify([tuple(tokens) for tokens, _, _ in rows])]
    expected = -sum(math.log(p[label]) for p, label in zip(probabilities, labels, strict=True))
    assert float(both["loss"] - plain["loss"]) == pytest.approx(weight * expected / 10, rel=1e-4)
    assert float(both["nll"]) == float(plain["nll"])  # what is reported is q alone
    assert int(both["n_correct"]) == sum(np.argmax(probabilities, axis=1) == labels)
    assert "n_correct" not in plain


@pytest.mark.parametrize("xlnet", [False, True])
def test_words_are_hidden_from_the_classifier_in_training_alone(xlnet, monkeypatch):
    engine = tiny_engine()
    engine.format = ContextFormat(**SPECIAL, styles=STYLES, xlnet=xlnet)
    objective = InsertionObjective(engine.model, engine.format, classifier_weight=1.0, hidden_rate=0.3)
    rows = [([6, 7, 8, 9] * length, [(0, 1)], None) for length in range(1, 40)]
    batch = objective.collate(examples_of(*rows, labels=np.zeros(len(rows), np.int64)))
    seen = []
    monkeypatch.setattr(
        "xl_editor.training.objectives.classify",
        lambda model, format, ids: seen.append(ids) or torch.zeros(len(ids), 2),
    )
    given = batch["classified_ids"]
    objective.eval()(**batch)
    objective.train()(**batch)
    assert torch.equal(seen[0], given)
    is_word = torch.isin(given, torch.tensor(WORDS))
    assert torch.equal(seen[1][~is_word], given[~is_word])  # the padding and the end are as they were
    hidden = seen[1] != given
    assert (seen[1][hidden] == engine.format.unk).all()
    assert float(hidden[is_word].float().mean()) == pytest.approx(0.3, abs=0.03)


def test_micro_batches_of_one_step_add_up_to_its_loss():
    engine = tiny_engine()
    objective = InsertionObjective(engine.model, engine.format)
    rows = random_rows(2)
    whole = objective.collate(examples_of(*rows))
    n_targets = (whole["labels"] != IGNORED).sum()
    parts = [objective.collate(examples_of(*part)) for part in (rows[:3], rows[3:])]
    with torch.no_grad():
        total = sum(objective(**part, num_items_in_batch=n_targets)["loss"] for part in parts)
        torch.testing.assert_close(objective(**whole)["loss"], total, rtol=1e-5, atol=0)


# --- the seq2seq baseline --------------------------------------------------------------------------------------


def test_seq2seq_reads_the_context_and_writes_what_is_missing():
    sizes = {"d_model": 16, "vocab_size": 12, "max_position_embeddings": 32, "scale_embedding": True}
    layers = {f"{side}_{what}": n for side in ("encoder", "decoder") for what, n in (("layers", 1), ("ffn_dim", 16))}
    heads = {"encoder_attention_heads": 2, "decoder_attention_heads": 2}
    torch.manual_seed(0)
    model = MarianMTModel(
        MarianConfig(**sizes, **layers, **heads, pad_token_id=0, eos_token_id=END, decoder_start_token_id=3)
    ).eval()
    objective = Seq2SeqObjective(model, ContextFormat(**SPECIAL), END)
    rows = [(tokens, intervals, None) for tokens, intervals, _ in random_rows(3, max_slots=1)]
    batch = objective.collate(examples_of(([6, 7, 8, 9], [(1, 3)], None), ([6, 7], [(2, 2)], None)))
    mask = SPECIAL["mask"]
    assert batch["input_ids"].tolist() == [[6, mask, 9], [6, 7, mask]]
    assert batch["labels"].tolist() == [[7, 8, END], [END, IGNORED, IGNORED]]
    with torch.no_grad():
        together = objective(**objective.collate(examples_of(*rows)))["nll"]
        alone = sum(objective(**objective.collate(examples_of(row)))["nll"] for row in rows)
    torch.testing.assert_close(together, alone, rtol=1e-4, atol=0)
