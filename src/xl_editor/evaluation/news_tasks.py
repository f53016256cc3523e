"""The paper's three post-editing tasks, made from held-out articles: Locate, Infill, Delete.

An article is a list of sentences, a word what stands between blanks. What is deleted is uniform over the runs of words
that leave at least `LEAST_WORDS`; Locate offers gaps between words only, because a baseline has no rule for the ends.
The same articles and seed give the same tasks, which are kept as JSONL for others to use.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from random import Random
from typing import Any, TypeVar

from xl_editor.errors import RequestError
from xl_editor.files import write_whole
from xl_editor.training import corpus

from .kept import claim

LEAST_WORDS = 6
DRAWS_IN_VAIN = 10_000  # in a row, after which there seem to be no more tasks
N_POSITIONS = 5  # that Locate offers
N_SENTENCES = 5  # of a Delete instance
N_TASKS = 5000

Article = Sequence[str]


@dataclass(frozen=True)
class LocateTask:
    """A sentence from which something was deleted: at which of the gaps?"""

    words: tuple[str, ...]
    gaps: tuple[int, ...]  # g: between words g − 1 and g
    answer: int  # index into gaps


@dataclass(frozen=True)
class InfillTask:
    """Three sentences; what was deleted from the middle one?"""

    left: str
    right: str
    answer: str


@dataclass(frozen=True)
class DeleteTask:
    """Five sentences, one of which comes from another article: which?"""

    sentences: tuple[str, ...]
    answer: int  # 1, 2 or 3


Task = TypeVar("Task", LocateTask, InfillTask, DeleteTask)


@dataclass(frozen=True)
class NewsTasks:
    locate: tuple[LocateTask, ...]
    infill: tuple[InfillTask, ...]
    delete: tuple[DeleteTask, ...]

    def save(self, directory: Path) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        for name in ("locate", "infill", "delete"):
            lines = [json.dumps(asdict(task), ensure_ascii=False) for task in getattr(self, name)]
            write_whole(directory / f"{name}.jsonl", "".join(f"{line}\n" for line in lines))

    @classmethod
    def load(cls, directory: Path) -> NewsTasks:
        def read(name: str) -> list[dict[str, Any]]:
            lines = (directory / f"{name}.jsonl").read_text(encoding="utf-8").split("\n")[:-1]
            return [{k: tuple(v) if isinstance(v, list) else v for k, v in json.loads(line).items()} for line in lines]

        return cls(
            tuple(LocateTask(**row) for row in read("locate")),
            tuple(InfillTask(**row) for row in read("infill")),
            tuple(DeleteTask(**row) for row in read("delete")),
        )


def open_tasks(data: Path | None, work_dir: Path, n_tasks: int = N_TASKS, seed: int = 0) -> NewsTasks:
    """The task sets of a data set, made now or taken from `work_dir`, which is enough if they are there."""
    directory = work_dir / f"news-tasks-{n_tasks}-seed{seed}"
    made = (directory / "delete.jsonl").exists()  # it is written last
    if data is not None:
        train, test = (packed_or_not(data, part) for part in ("train", "test"))
        claim(work_dir, "news", (train, test))
        if not made:
            make_tasks(list(read_articles(test)), n_tasks, seed, long_sentences(read_articles(train))).save(directory)
    elif not made:
        raise FileNotFoundError(f"{directory} holds no task sets yet; name the articles to make them from by --data.")
    return NewsTasks.load(directory)


def packed_or_not(directory: Path, part: str) -> Path:
    """The file of a part of the data: train, valid or test."""
    for suffix in (".jsonl.xz", ".jsonl.gz", ".jsonl"):
        if (directory / f"{part}{suffix}").is_file():
            return directory / f"{part}{suffix}"
    raise FileNotFoundError(f"{directory} holds no {part}.jsonl.xz (nor .gz, nor .jsonl).")


def read_articles(path: Path) -> Iterator[list[str]]:
    """The sentences of each article of a JSONL file, packed or not."""
    return (article.sentences for article in corpus.read_articles(corpus.Source(path)))


def long_sentences(articles: Iterator[Article]) -> set[str]:
    """Sentences that are long enough to be asked about: those of the training split must not be."""
    return {sentence for article in articles for sentence in article if len(sentence.split()) >= LEAST_WORDS}


def make_tasks(
    articles: Sequence[Article], n_tasks: int = N_TASKS, seed: int = 0, seen: Collection[str] = frozenset()
) -> NewsTasks:
    """Make `n_tasks` of each kind. No sentence in `seen`, which training had, is in any of them."""
    clean = [article for article in articles if article and not any(sentence in seen for sentence in article)]
    if not clean:
        raise RequestError("There is no test article without a sentence that training had.")
    return NewsTasks(
        _distinct(_locate_task, clean, n_tasks, Random(f"locate {seed}")),
        _distinct(_infill_task, clean, n_tasks, Random(f"infill {seed}")),
        _distinct(_delete_task, clean, n_tasks, Random(f"delete {seed}")),
    )


def _distinct(
    draw: Callable[[Sequence[Article], Random], Task | None], articles: Sequence[Article], n_tasks: int, random: Random
) -> tuple[Task, ...]:
    found: dict[Task, None] = {}
    n_in_vain = 0
    while n_in_vain < DRAWS_IN_VAIN:
        task = draw(articles, random)
        n_in_vain = n_in_vain + 1 if task is None or task in found else 0
        if task is not None:
            found[task] = None
        if len(found) == n_tasks:
            return tuple(found)
    raise RequestError(f"These articles are too few or too short for {n_tasks} tasks of each kind.")


def _locate_task(articles: Sequence[Article], random: Random) -> LocateTask | None:
    words = random.choice(random.choice(articles)).split()
    cut = _interval(len(words), random, inside=True)
    if cut is None:
        return None
    start, end = cut
    left = (*words[:start], *words[end:])
    others = [gap for gap in range(1, len(left)) if gap != start]
    gaps = sorted([start, *random.sample(others, N_POSITIONS - 1)])
    return LocateTask(left, tuple(gaps), gaps.index(start))


def _infill_task(articles: Sequence[Article], random: Random) -> InfillTask | None:
    article = random.choice(articles)
    if len(article) < 3:
        return None
    first = random.randrange(len(article) - 2)
    before, middle, after = article[first : first + 3]
    words = middle.split()
    cut = _interval(len(words), random, inside=False)
    if cut is None:
        return None
    start, end = cut
    return InfillTask(" ".join([before, *words[:start]]), " ".join([*words[end:], after]), " ".join(words[start:end]))


def _delete_task(articles: Sequence[Article], random: Random) -> DeleteTask | None:
    article, other = random.choice(articles), random.choice(articles)
    if len(article) < N_SENTENCES or other is article:
        return None
    first = random.randrange(len(article) - N_SENTENCES + 1)
    sentences = list(article[first : first + N_SENTENCES])
    answer = random.randrange(1, N_SENTENCES - 1)
    sentences[answer] = random.choice(other)
    return DeleteTask(tuple(sentences), answer)


def _interval(n_words: int, random: Random, *, inside: bool) -> tuple[int, int] | None:
    """A run of words, uniform over those that leave enough; `inside` ones leave something on either side."""
    edge = int(inside)
    possible = [
        (start, end)
        for start in range(edge, n_words)
        for end in range(start + 1, n_words + 1 - edge)
        if n_words - (end - start) >= LEAST_WORDS
    ]
    return random.choice(possible) if possible else None
