"""How whatever is done with a text asks the engine: plans, and the questions that they ask.

A plan is a generator that yields questions and is sent their answers; what it returns is its result. Many plans can be
carried out together, and what they ask at the same time reaches the engine as one batch. A plan may also yield
`Progress`, which nobody answers: whoever carries it out hears of it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Any, Generic, Protocol, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from xl_editor.engine import Context, Decoding, Ids, Insertion, Scored
from xl_editor.errors import RequestError

Result = TypeVar("Result")


class Estimator(Protocol):
    """What answers questions: `Engine`, or a table in a test."""

    def score(self, insertions: Sequence[Insertion]) -> list[Scored]: ...
    def first_logprobs(self, contexts: Sequence[Context]) -> list[NDArray[np.float32]]: ...
    def decode(self, contexts: Sequence[Context], decoding: Decoding) -> list[list[Scored]]: ...
    def classify(self, texts: Sequence[Ids]) -> list[dict[str, float]]: ...


@dataclass(frozen=True)
class Question(ABC):
    """Something to ask about several things, answered by a list with an answer for each."""

    about: Sequence[Any]

    @abstractmethod
    def put_to(self, estimator: Estimator) -> list[Any]:
        """Ask it."""

    @property
    def kind(self) -> Self:
        """What questions have in common that can be asked as one."""
        return self.asking(())

    def asking(self, about: Sequence[Any]) -> Self:
        """The same about something else."""
        return replace(self, about=about)


@dataclass(frozen=True)
class ToScore(Question):
    """Answered by a `Scored` for each insertion."""

    about: Sequence[Insertion]

    def put_to(self, estimator: Estimator) -> list[Scored]:
        return estimator.score(self.about)


@dataclass(frozen=True)
class ToPredict(Question):
    """Answered, for each context, by log q̂ of every entry of the vocabulary as the first token of an insertion."""

    about: Sequence[Context]

    def put_to(self, estimator: Estimator) -> list[NDArray[np.float32]]:
        return estimator.first_logprobs(self.about)


@dataclass(frozen=True)
class ToDecode(Question):
    """Answered by a list of `Scored`, the best first, for each context."""

    about: Sequence[Context]
    decoding: Decoding

    def put_to(self, estimator: Estimator) -> list[list[Scored]]:
        return estimator.decode(self.about, self.decoding)


@dataclass(frozen=True)
class ToClassify(Question):
    """Answered by the probabilities of the styles of each text."""

    about: Sequence[Ids]

    def put_to(self, estimator: Estimator) -> list[dict[str, float]]:
        return estimator.classify(self.about)


@dataclass(frozen=True)
class Several:
    """Questions that are asked at the same time, and answered by a list of their answers."""

    questions: Sequence[Question | Several]


@dataclass(frozen=True)
class Progress:
    """No question: something worth knowing while a plan is being carried out."""

    what: Any


Plan = Generator[Question | Several | Progress, Any, Result]


# --- carrying out ------------------------------------------------------------------------------------------------


class PanicError(RuntimeError):
    """A library has panicked: what it raised is no `Exception`."""


class Ongoing(Generic[Result]):
    """A plan that is being carried out, question by question."""

    def __init__(self, plan: Plan[Result], tell: Callable[[Any], None] = lambda _: None) -> None:
        self._plan = plan
        self._tell = tell  # hears of the plan's progress
        self.question: Question | Several | None = None
        self.is_finished = False
        self.result: Result | None = None  # of a plan that has reached its end
        self.error: Exception | None = None  # by which it ended before that

    def go_on(self, answer: Any = None) -> None:
        """To the next question, or to the end."""
        try:
            asked = self._plan.send(answer)
            while isinstance(asked, Progress):
                self._tell(asked.what)
                asked = self._plan.send(None)
            self.question = asked
        except StopIteration as finished:
            self.is_finished, self.result = True, finished.value
        except Exception as error:
            self.is_finished, self.error = True, error
        except BaseException as error:
            if isinstance(error, KeyboardInterrupt | SystemExit | GeneratorExit):
                raise
            # A panic in a library that is not written in Python is no Exception, and still concerns this plan alone.
            self.is_finished, self.error = True, PanicError(f"{type(error).__name__}: {error}")


def advance(estimator: Estimator, plans: Sequence[Ongoing[Any]]) -> None:
    """Answer what these plans ask, all together; each goes on to its next question, or to its end."""
    for plan in plans:
        if plan.question is None and not plan.is_finished:
            plan.go_on()
    asking = [(plan, plan.question) for plan in plans if plan.question is not None and not plan.is_finished]
    answers = answers_to(estimator, [question for _, question in asking])
    for (plan, _), answer in zip(asking, answers, strict=True):
        plan.go_on(answer)


def carry_out(estimator: Estimator, plans: Iterable[Plan[Any]]) -> list[Any]:
    """Carry out plans together; for each its result, or the RequestError by which it refused."""
    ongoing = [Ongoing(plan) for plan in plans]
    while active := [plan for plan in ongoing if not plan.is_finished]:
        advance(estimator, active)
    return [outcome(plan) for plan in ongoing]


def outcome(plan: Ongoing[Any]) -> Any:
    """What has become of a plan: its result, or the RequestError by which it refused; any other error is raised."""
    if plan.error is None:
        return plan.result
    if isinstance(plan.error, RequestError):
        return plan.error
    raise plan.error


def answers_to(estimator: Estimator, questions: Sequence[Question | Several]) -> list[Any]:
    """The answers to all questions; those of a kind reach the estimator together."""
    single = [part for question in questions for part in _parts(question)]
    of_kind: dict[Question, list[int]] = {}
    for index, question in enumerate(single):
        of_kind.setdefault(question.kind, []).append(index)
    answers: dict[int, list[Any]] = {}
    for kind, indices in of_kind.items():
        found = iter(kind.asking([item for index in indices for item in single[index].about]).put_to(estimator))
        answers |= {index: list(islice(found, len(single[index].about))) for index in indices}
    in_order = iter([answers[index] for index in range(len(single))])
    return [_assembled(question, in_order) for question in questions]


def _parts(question: Question | Several) -> Iterator[Question]:
    if isinstance(question, Several):
        for part in question.questions:
            yield from _parts(part)
    else:
        yield question


def _assembled(question: Question | Several, answers: Iterator[Any]) -> Any:
    """The answer to a question, from those to its parts."""
    if isinstance(question, Several):
        return [_assembled(part, answers) for part in question.questions]
    return next(answers)


# --- plans made of plans -----------------------------------------------------------------------------------------


def together(
    plans: Sequence[Plan[Result]], relay: Callable[[int, Any], Iterable[Any]] = lambda number, what: ()
) -> Plan[list[Result]]:
    """One plan for several, which ask at the same time; their results. `relay` says what to tell of their progress."""
    results: dict[int, Result] = {}
    answers: dict[int, Any] = dict.fromkeys(range(len(plans)))
    while answers:
        asked: dict[int, Question | Several] = {}
        for number, answer in answers.items():
            try:
                said = plans[number].send(answer)
                while isinstance(said, Progress):
                    for what in relay(number, said.what):
                        yield Progress(what)
                    said = plans[number].send(None)
                asked[number] = said
            except StopIteration as finished:
                results[number] = finished.value
        found = (yield Several(list(asked.values()))) if asked else []
        answers = dict(zip(asked, found, strict=True))
    return [results[number] for number in range(len(plans))]


@dataclass(frozen=True)
class Memory:
    """Answers, by what was asked; all but whole distributions, which are large."""

    answers: dict[Question, dict[Hashable, Any]] = field(default_factory=dict)

    def of_kind(self, question: Question) -> dict[Hashable, Any]:
        return self.answers.setdefault(question.kind, {})


def remembering(plan: Plan[Result], memory: Memory) -> Plan[Result]:
    """The same plan, but no question that the memory knows is asked again; what is answered, it learns."""
    answer: Any = None
    while True:
        try:
            said = plan.send(answer)
        except StopIteration as finished:
            return finished.value
        answer = None
        if isinstance(said, Progress):
            yield said
            continue
        questions = list(_parts(said))
        known = [{} if isinstance(question, ToPredict) else memory.of_kind(question) for question in questions]
        unknown = [
            question.asking([item for item in dict.fromkeys(question.about) if item not in of_kind])
            for question, of_kind in zip(questions, known, strict=True)
        ]
        found = (yield Several(unknown)) if any(question.about for question in unknown) else [()] * len(unknown)
        for of_kind, question, new in zip(known, unknown, found, strict=True):
            of_kind.update(zip(question.about, new, strict=True))
        answers = ([of_kind[item] for item in q.about] for q, of_kind in zip(questions, known, strict=True))
        answer = _assembled(said, answers)
