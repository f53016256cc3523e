"""The baselines against brute force: one question at a time, straight from the definitions in the paper."""

import math
from random import Random

import numpy as np
import pytest
import torch
from transformers import MarianConfig, MarianMTModel

from conftest import SPECIAL, tiny_model
from xl_editor.baselines.l2r import LeftToRight
from xl_editor.baselines.seq2seq import Seq2Seq
from xl_editor.context import ContextFormat
from xl_editor.engine import Context, Insertion
from xl_editor.evaluation.news_rules import Blank, EndRules, PairRules
from xl_editor.geometry import plain_places, relate, stack

END, START = 5, 3
WORDS = range(6, 14)
FORMAT = ContextFormat(**SPECIAL)
XLNET = ContextFormat(**SPECIAL, xlnet=True)


def texts_of(n, seed=0):
    random = Random(seed)
    return [tuple(random.choices(WORDS, k=random.randint(4, 9))) for _ in range(n)]


# --- brute force -----------------------------------------------------------------------------------------------


@torch.no_grad()
def l2r_logprobs(model, format, text, start, end):
    """Log p of each token of an interval given all others, in a pass of its own over the one text."""
    whole = [*text, *format.right_end(None)]
    places = plain_places(len(whole), [(start, end)])
    queries = plain_places(len(whole), [(start, end)])[start:end]
    content, rows = stack([places]), stack([queries])
    ids = torch.tensor([whole])
    relation = format.with_segments(relate(content, rows, plain=True), ids)
    states, _ = model.advance(ids, relation, n_read=end - start)
    logprobs = model.logits(states[0]).log_softmax(-1)
    return [float(logprobs[k, token]) for k, token in enumerate(text[start:end])]


def perplexity(logprobs):
    return math.exp(-sum(logprobs) / len(logprobs))


@torch.no_grad()
def seq2seq_next(model, left, right, written):
    """Log q̂ of every token after what is written, without a cache or a batch."""
    source = torch.tensor([[*left, SPECIAL["mask"], *right]])
    return model(input_ids=source, decoder_input_ids=torch.tensor([[START, *written]])).logits[0, -1].log_softmax(-1)


def seq2seq_logprobs(model, left, y, right):
    targets = [*y, END]
    return [float(seq2seq_next(model, left, right, targets[:k])[token]) for k, token in enumerate(targets)]


# --- XLNet L2R -------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def xlnet():
    return tiny_model(vocab_size=14, end_token_id=END)


@pytest.mark.parametrize("format", [FORMAT, XLNET], ids=["scratch", "xlnet"])
def test_l2r_scores_as_one_by_one(xlnet, format):
    model = LeftToRight(xlnet, format)
    texts = texts_of(20)
    random = Random(1)
    asked, expected = [], []
    for text in texts:
        start = random.randrange(len(text))
        end = random.randint(start + 1, len(text))
        asked.append(Insertion(Context.around(text, start, end), text[start:end]))
        expected.append(l2r_logprobs(xlnet, format, text, start, end))
    for scored, logprobs in zip(model.score(asked), expected, strict=True):
        assert scored.token_logprobs == pytest.approx(logprobs, abs=1e-4)  # END is not among them


@pytest.mark.parametrize("format", [FORMAT, XLNET], ids=["scratch", "xlnet"])
def test_l2r_decodes_each_length_greedily(xlnet, format):
    model = LeftToRight(xlnet, format)
    asked = [(Context.around(text, 2, 2), length) for text in texts_of(6) for length in (1, 2, 5)]
    for (context, length), found in zip(asked, model.decode(asked), strict=True):
        left, right = context.parts
        y = ()
        for k in range(length):
            # Tokens that are still to come are not seen, whatever they are; only that there are so many.
            wholes = {token: (*left, *y, token, *[WORDS[0]] * (length - k - 1), *right) for token in WORDS}
            span = (len(left), len(left) + length)
            next_ones = {token: l2r_logprobs(xlnet, format, whole, *span)[k] for token, whole in wholes.items()}
            y = (*y, max(WORDS, key=next_ones.__getitem__))
        assert found.ids == y
        whole = (*left, *y, *right)
        expected = l2r_logprobs(xlnet, format, whole, len(left), len(left) + length)
        assert found.token_logprobs == pytest.approx(expected, abs=1e-4)


def test_l2r_rules_are_the_papers(xlnet):
    model = LeftToRight(xlnet, FORMAT)
    rules = PairRules(None, model)
    for text in texts_of(8, seed=2):
        gaps = range(1, len(text))
        pairs = [sum(l2r_logprobs(xlnet, FORMAT, text, gap - 1, gap + 1)) for gap in gaps]
        assert rules.needs([(text, gaps)])[0] == pytest.approx(pairs, abs=1e-4)

        spans = [(1, 2), (1, 3), (2, 3)]
        for (a, b), misfit in zip(spans, rules.misfits([(text, spans)])[0], strict=True):
            rest = text[:a] + text[b:]
            with_neighbours = perplexity(l2r_logprobs(xlnet, FORMAT, text, a - 1, b + 1))
            neighbours = perplexity(l2r_logprobs(xlnet, FORMAT, rest, a - 1, a + 1))
            assert misfit.ratio == pytest.approx(with_neighbours / neighbours, rel=1e-3)
            whole = perplexity(l2r_logprobs(xlnet, FORMAT, rest, 0, len(rest)))
            assert misfit.perplexity_without == pytest.approx(whole, rel=1e-3)
            joint, of_rest, of_part = (sum(l2r_logprobs(xlnet, FORMAT, t, 0, len(t))) for t in (text, rest, text[a:b]))
            assert misfit.information == pytest.approx((joint - of_rest - of_part) / (b - a), abs=1e-3)


@pytest.mark.parametrize(("n_truth", "n_lengths"), [(1, 10), (5, 10), (7, 14)])
def test_l2r_fills_with_the_best_of_all_lengths(xlnet, n_truth, n_lengths):
    model = LeftToRight(xlnet, FORMAT)
    rules = PairRules(None, model)
    for text in texts_of(4, seed=3):
        context = Context.around(text, 2, 2)
        tried = model.decode([(context, length) for length in range(1, n_lengths + 1)])
        wholes = [(*text[:2], *y.ids, *text[2:]) for y in tried]
        (filled,) = rules.fill([Blank(context, n_truth)])
        assert filled.plain == min(tried, key=lambda y: perplexity(y.token_logprobs)).ids
        best = min(wholes, key=lambda whole: perplexity(l2r_logprobs(xlnet, FORMAT, whole, 0, len(whole))))
        assert (*text[:2], *filled.ranked, *text[2:]) == best


# --- the Transformer -------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def transformer():
    torch.manual_seed(0)
    config = MarianConfig(
        vocab_size=14,
        d_model=32,
        encoder_layers=2,
        decoder_layers=2,
        encoder_attention_heads=4,
        decoder_attention_heads=4,
        encoder_ffn_dim=48,
        decoder_ffn_dim=48,
        max_position_embeddings=64,
        pad_token_id=0,
        bos_token_id=START,
        eos_token_id=END,
        forced_eos_token_id=None,
        decoder_start_token_id=START,
    )
    model = MarianMTModel(config)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if parameter.dim() > 1 and "embed_positions" not in name:
                parameter.normal_(std=0.5)
        model.final_logits_bias[0, END] = 6.0  # so that it does end
    return model.eval()


def test_the_transformer_scores_as_one_by_one(transformer):
    model = Seq2Seq(transformer, FORMAT)
    asked = [Insertion(Context.around(text, 1, b), text[1:b]) for text in texts_of(12) for b in (1, 2, 4)]
    for insertion, scored in zip(asked, model.score(asked), strict=True):
        left, right = insertion.context.parts
        expected = seq2seq_logprobs(transformer, left, insertion.inserted, right)
        assert scored.token_logprobs == pytest.approx(expected, abs=1e-4)


def test_the_transformer_decodes_greedily(transformer):
    model = Seq2Seq(transformer, FORMAT)
    contexts = [Context.around(text, 2, 3) for text in texts_of(12)]
    lengths = set()
    for context, found in zip(contexts, model.decode(contexts, max_length=6), strict=True):
        y = ()
        while len(y) < 6:
            logprobs = seq2seq_next(transformer, *context.parts, y)
            allowed = [*WORDS, END] if y else WORDS  # nothing is no answer
            token = max(allowed, key=lambda token, logprobs=logprobs: float(logprobs[token]))
            if token == END:
                break
            y = (*y, token)
        assert found == y
        lengths.add(len(y))
    assert len(lengths) > 1


def test_the_rules_of_models_with_end_are_the_papers(transformer):
    model = Seq2Seq(transformer, FORMAT)
    rules = EndRules(None, model.score, model.decode)
    for text in texts_of(5, seed=4):
        gaps = range(1, len(text))
        ends = [seq2seq_logprobs(transformer, text[:gap], (), text[gap:])[0] for gap in gaps]
        assert rules.needs([(text, gaps)])[0] == pytest.approx(ends, abs=1e-4)
        bounds = {3: 10, 8: 16, 5: 10, 6: 12}  # by the tokens of the truth: max(10, 2 × truth), as for L2R
        blanks = [Blank(Context.around(text, 2, 2), n_truth) for n_truth in bounds]
        for filled, bound in zip(rules.fill(blanks), bounds.values(), strict=True):
            assert filled.plain == model.decode([Context.around(text, 2, 2)], bound)[0]
            assert filled.ranked is None
        spans = [(1, 2), (1, 3), (2, 3)]
        for (a, b), misfit in zip(spans, rules.misfits([(text, spans)])[0], strict=True):
            left, y, right = text[:a], text[a:b], text[b:]
            standing = perplexity(seq2seq_logprobs(transformer, left, y, right))  # |y| + 1 tokens: END counts
            nothing = 1 / math.exp(seq2seq_logprobs(transformer, left, (), right)[0])
            assert misfit.ratio == pytest.approx(standing / nothing, rel=1e-3)
            whole = seq2seq_logprobs(transformer, (), left + right, ())  # the source is `<m>`
            assert misfit.perplexity_without == pytest.approx(perplexity(whole), rel=1e-3)


def test_what_does_not_end_is_cut_where_l2r_must_end():
    blanks = [Blank(Context(((4,), (5,))), n_truth) for n_truth in (3, 8, 40, 5, 6, 0)]
    endless = EndRules(None, lambda asked: [], lambda contexts, n: [tuple(range(n)) for _ in contexts])
    assert [len(filled.plain) for filled in endless.fill(blanks)] == [10, 16, 80, 10, 12, 10]


def test_the_transformer_reads_longer_texts_than_it_was_trained_on(tmp_path, transformer):
    """Its positions are sinusoids, which are the same in a saved and loaded model however they are stored."""
    transformer.save_pretrained(tmp_path)
    again = MarianMTModel.from_pretrained(tmp_path).eval()
    for mine, theirs in zip(transformer.state_dict().values(), again.state_dict().values(), strict=True):
        assert np.array_equal(mine.numpy(), theirs.numpy())
