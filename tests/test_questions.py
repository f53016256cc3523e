"""Plans are carried out together, and as if each were alone; what asks, and what answers, are hand-made."""

import pytest

from conftest import tiny_engine
from xl_editor.engine import Context, Decoding, Insertion
from xl_editor.errors import RequestError
from xl_editor.operations.questions import (
    Memory,
    Ongoing,
    Progress,
    Several,
    ToClassify,
    ToDecode,
    ToPredict,
    ToScore,
    advance,
    answers_to,
    carry_out,
    remembering,
    together,
)


class Counter:
    """Classifies a text by its length, and notes what it was asked."""

    def __init__(self):
        self.asked = []

    def classify(self, texts):
        self.asked.append(list(texts))
        return [len(text) for text in texts]


def grows(text, n):
    """Asks about ever longer texts."""
    found = []
    for _ in range(n):
        (length,) = yield ToClassify([text])
        found.append(length)
        yield Progress(length)
        text = (*text, 0)
    return found


def refuses(text):
    yield ToClassify([text])
    raise RequestError("text is refused.", "text")


def fails(text):
    yield ToClassify([text])
    raise ValueError("zip() argument 2 is shorter")  # as a failing zip(strict=True) does


def test_plans_advance_together_and_end_as_if_alone():
    counter = Counter()
    assert carry_out(counter, [grows((1,), 2), grows((2, 2), 3), grows((), 0)]) == [[1, 2], [2, 3, 4], []]
    assert [len(batch) for batch in counter.asked] == [2, 2, 1]


def test_a_plan_that_refuses_harms_no_other_and_a_bug_is_raised():
    refused, fine = carry_out(Counter(), [refuses((1,)), grows((1,), 2)])
    assert isinstance(refused, RequestError)
    assert fine == [1, 2]
    with pytest.raises(ValueError, match="is shorter"):
        carry_out(Counter(), [fails((1,)), grows((1,), 2)])


def test_progress_is_told_as_it_is_made():
    told = []
    plan = Ongoing(grows((1,), 3), told.append)
    advance(Counter(), [plan])
    assert told == [1]
    while not plan.is_finished:
        advance(Counter(), [plan])
    assert told == plan.result == [1, 2, 3]


def test_one_plan_of_several_asks_as_they_do():
    counter, told = Counter(), []

    def relay(number, what):
        return [(number, what)] if number else ()

    plan = Ongoing(together([grows((1,), 1), together([grows((2, 2), 2)])], relay), told.append)
    inner = Ongoing(together([grows((1,), 1), grows((2, 2), 2)], relay), told.append)
    for ongoing in (plan, inner):
        while not ongoing.is_finished:
            advance(counter, [ongoing])
    assert plan.result == [[1], [[2, 3]]]
    assert inner.result == [[1], [2, 3]]
    assert told == [(1, 2), (1, 3)]  # of the second of `inner`; `together` by itself tells nothing
    assert [len(batch) for batch in counter.asked] == [2, 1] * 2


def test_with_a_memory_nothing_is_asked_twice():
    counter, memory = Counter(), Memory()
    expected = [[1, 2, 3], [1, 2]]
    for plans in ([grows((1,), 3), grows((1,), 2)], [together([grows((1,), 3), grows((1,), 2)])]):
        carry_out(counter, [remembering(plan, memory) for plan in plans])
    counter.asked.clear()
    assert carry_out(counter, [remembering(together([grows((1,), 3), grows((1,), 2)]), memory)]) == [expected]
    assert counter.asked == []


def test_questions_of_all_kinds_are_answered_as_the_engine_answers_them():
    engine = tiny_engine()
    contexts = [Context(((6, 7), (8,)), "positive"), Context(((6,), (9, 8)), "negative")]
    insertions = [Insertion(context, (7,)) for context in contexts]
    decoding = Decoding(max_length=2)
    scores, first, decoded, styles = answers_to(
        engine,
        [
            Several([ToScore(insertions[:1]), ToScore(insertions[1:])]),
            ToPredict(contexts),
            ToDecode(contexts, decoding),
            ToClassify([(6, 7)]),
        ],
    )
    assert [scored for part in scores for scored in part] == engine.score(insertions)
    assert all((a == b).all() for a, b in zip(first, engine.first_logprobs(contexts), strict=True))
    assert decoded == engine.decode(contexts, decoding)
    assert styles == engine.classify([(6, 7)])
