"""The paper's three tasks: how they are made, that they leak nothing, and that the paper's rules decide them."""

import json
import lzma
from collections import Counter
from itertools import pairwise
from random import Random

import pytest

from xl_editor.evaluation.news import NewsScores, evaluate_news
from xl_editor.evaluation.news_tasks import (
    LEAST_WORDS,
    NewsTasks,
    long_sentences,
    make_tasks,
    open_tasks,
    read_articles,
)
from xl_editor.evaluation.rules import rules_of

WORDS = [f"w{i}" for i in range(400)]


def articles_of(n, seed=0):
    random = Random(seed)
    return [[" ".join(random.choices(WORDS, k=random.randint(3, 30))) for _ in range(12)] for _ in range(n)]


ARTICLES = articles_of(300)
SENTENCES = {sentence for article in ARTICLES for sentence in article}


@pytest.fixture(scope="module")
def tasks():
    return make_tasks(ARTICLES, n_tasks=2000)


def test_what_is_located_was_deleted_there(tasks):
    for task in tasks.locate:
        assert len(task.words) >= LEAST_WORDS
        assert len(set(task.gaps)) == 5
        assert list(task.gaps) == sorted(task.gaps)
        assert 0 < min(task.gaps) <= max(task.gaps) < len(task.words)
    wholes = [sentence.split() for sentence in SENTENCES]
    for task in tasks.locate[:100]:
        gap, n_words = task.gaps[task.answer], len(task.words)
        left, right = list(task.words[:gap]), list(task.words[gap:])
        assert any(w[:gap] == left and w[-len(right) :] == right and len(w) > n_words for w in wholes)


def test_an_infill_is_a_part_of_the_middle_sentence(tasks):
    for task in tasks.infill[:300]:
        whole = f"{task.left} {task.answer} {task.right}"
        assert any(whole in " ".join(article) for article in ARTICLES)
        assert task.answer


def test_one_sentence_of_five_is_a_stranger(tasks):
    neighbours = {(a, b) for article in ARTICLES for a, b in pairwise(article)}
    for task in tasks.delete:
        follows = [pair in neighbours for pair in pairwise(task.sentences)]
        assert follows == [index not in (task.answer - 1, task.answer) for index in range(4)]


@pytest.mark.parametrize("position", range(5))
def test_no_position_is_the_likelier_one(tasks, position):
    share = Counter(task.answer for task in tasks.locate)[position] / len(tasks.locate)
    assert share == pytest.approx(0.2, abs=0.03)


def test_neither_place_nor_length_tells_the_stranger(tasks):
    n = len(tasks.delete)
    for position in (1, 2, 3):
        assert sum(task.answer == position for task in tasks.delete) / n == pytest.approx(1 / 3, abs=0.03)
    longest = [max((1, 2, 3), key=lambda i: len(task.sentences[i])) == task.answer for task in tasks.delete]
    assert sum(longest) / n == pytest.approx(1 / 3, abs=0.03)


def test_the_same_seed_makes_the_same_tasks_and_another_others(tasks, tmp_path):
    assert make_tasks(ARTICLES, n_tasks=2000) == tasks
    assert make_tasks(ARTICLES, n_tasks=2000, seed=1) != tasks
    tasks.save(tmp_path)
    assert NewsTasks.load(tmp_path) == tasks


def test_sentences_of_the_training_split_are_never_asked_about(tmp_path):
    for part, articles in {"train": ARTICLES[:50], "test": ARTICLES[40:]}.items():
        with lzma.open(tmp_path / f"{part}.jsonl.xz", "wt") as file:
            file.writelines(json.dumps({"id": i, "sents": article}) + "\n" for i, article in enumerate(articles))
    seen = long_sentences(read_articles(tmp_path / "train.jsonl.xz"))
    tasks = open_tasks(tmp_path, tmp_path / "work", n_tasks=300)
    assert not {sentence for task in tasks.delete for sentence in task.sentences} & seen
    assert open_tasks(tmp_path, tmp_path / "work", n_tasks=300) == tasks  # loaded


def test_too_few_articles_are_refused():
    with pytest.raises(ValueError, match="too few or too short"):
        make_tasks([["one two three"]], n_tasks=5)


def test_locate_decides_as_the_editor_does(editor):
    random = Random(0)
    known = ["the", "food", "was", "great", "staff", "slow"]
    articles = [[" ".join(random.choices(known, k=random.randint(8, 14))) for _ in range(12)] for _ in range(30)]
    tasks = make_tasks(articles, n_tasks=12)
    scores = evaluate_news(rules_of(editor), tasks, progress=False)
    n_right = 0
    for task in tasks.locate:
        answers = {len(" ".join(task.words[:gap])) + 1: index for index, gap in enumerate(task.gaps)}
        best = next(slot for slot in editor.locate(" ".join(task.words)) if slot.char in answers)
        n_right += answers[best.char] == task.answer
    assert scores.locate.value == pytest.approx(100 * n_right / len(tasks.locate))
    assert len(scores.infilled) == len(tasks.infill)
    assert "Locate" in scores.render()
    assert NewsScores.from_dict(json.loads(json.dumps(scores.to_dict()))) == scores
