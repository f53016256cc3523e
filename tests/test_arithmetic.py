"""The engine does no more work than it did: multiply-adds are counted, and compared with the least that would do.

When a change lowers a number, write the lower one down. A higher one wants a very good reason.
"""

import pytest

from arithmetic import count_multiply_adds, least_to_classify, least_to_score
from conftest import SPECIAL, STYLES, tiny_model
from xl_editor.context import ContextFormat
from xl_editor.engine import Context, Decoding, Engine, Insertion
from xl_editor.operations.transfer import candidates

TEXTS = [(20, 21, 22, 23, 24, 22, 25, 26, 27, 28, 29), (30, 31, 22, 32, 33, 29), (20, 34, 23, 24, 35, 36, 37, 29)]
FORMAT = ContextFormat(**SPECIAL, styles=STYLES)


@pytest.fixture(scope="module")
def engine() -> Engine:
    """The proportions of the bundled models, in small."""
    sizes = {"vocab_size": 1200, "d_model": 32, "n_layer": 4, "n_head": 4, "d_inner": 64}
    return Engine(tiny_model(**sizes, n_labels=2, end_token_id=5), FORMAT)


def questions_of_algorithm_1(texts) -> list[Insertion]:
    return [
        Insertion(Context.around(text, start, end, style), text[start:end])
        for text in texts
        for start, end in candidates(len(text), max_span=2)
        for style in STYLES
    ]


def check(counted: int, recorded: int, least: int) -> None:
    share = f"{counted:,} multiply-adds, {counted / least - 1:.1%} above the least that would do ({least:,})"
    assert least <= counted, f"The bound is none: {share}."
    assert counted <= recorded, f"More work for the same answers: {share}; it was {recorded:,}."


@pytest.mark.parametrize(("n_texts", "recorded"), [(1, 43_270_656), (3, 85_428_736)])
def test_scoring_the_candidates_of_algorithm_1(engine, n_texts, recorded):
    asked = questions_of_algorithm_1(TEXTS[:n_texts])
    counted = count_multiply_adds(lambda: engine.score(asked))
    check(counted, recorded, least_to_score(engine.model.config, FORMAT, asked))


def test_a_question_that_is_asked_again_costs_nothing(engine):
    asked = questions_of_algorithm_1(TEXTS[:1])
    once, again = (count_multiply_adds(lambda times=times: engine.score(asked * times)) for times in (1, 3))
    assert again == once


def test_many_insertions_into_one_context(engine):
    context = Context((TEXTS[0][:5], TEXTS[0][5:]), "positive")
    asked = [Insertion(context, (token, 30)) for token in range(20, 60)]
    counted = count_multiply_adds(lambda: engine.score(asked))
    check(counted, 10_834_048, least_to_score(engine.model.config, FORMAT, asked))


def test_greedy_decoding_costs_what_scoring_its_result_would(engine):
    context = Context((TEXTS[0] * 3, TEXTS[1] * 3), "positive")
    decoding = Decoding(min_length=12, max_length=12)
    ((best,),) = engine.decode([context], decoding)
    counted = count_multiply_adds(lambda: engine.decode([context], decoding))
    check(counted, 3_979_328, least_to_score(engine.model.config, FORMAT, [Insertion(context, best.ids)]))


def test_classifying(engine):
    counted = count_multiply_adds(lambda: engine.classify(TEXTS * 2))
    check(counted, 1_101_024, least_to_classify(engine.model.config, FORMAT, TEXTS))
