"""The paper's three tasks: how they are made, that they leak nothing, and that the paper's rules decide them."""

import json
import lzma
import math
import os
from collections import Counter
from dataclasses import replace
from itertools import islice, pairwise
from pathlib import Path
from random import Random

import numpy as np
import pytest
import torch

from xl_editor import Editor
from xl_editor.baselines.l2r import LeftToRight
from xl_editor.baselines.seq2seq import Seq2Seq
from xl_editor.context import ContextFormat
from xl_editor.evaluation import news
from xl_editor.evaluation.bleu import Interval
from xl_editor.evaluation.news import evaluate_news, heuristics, measured_share, random_choices
from xl_editor.evaluation.news_rules import EndRules, PairRules, rules_of
from xl_editor.evaluation.news_tasks import (
    LEAST_WORDS,
    NewsTasks,
    long_sentences,
    make_tasks,
    open_tasks,
    packed_or_not,
    read_articles,
)
from xl_editor.model import XLEditorConfig, XLEditorModel
from xl_editor.text import TOKENIZER_FILE, Codec, TextFormat
from xl_editor.training.recipe import DataRecipe, ModelRecipe, OptimRecipe, Recipe
from xl_editor.training.run import new_transformer
from xl_editor.training.vocabulary import special_ids, train_tokenizer

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
    assert not leaked(tasks, seen)
    careless = make_tasks(ARTICLES[40:], n_tasks=300)
    assert leaked(careless, seen) == {"locate", "infill", "delete"}
    assert open_tasks(None, tmp_path / "work", n_tasks=300) == tasks  # without the articles, too
    with pytest.raises(FileNotFoundError, match="name the articles to make them from by --data"):
        open_tasks(None, tmp_path / "work", n_tasks=30)
    assert open_tasks(tmp_path, tmp_path / "work", n_tasks=300) == tasks  # loaded
    with lzma.open(tmp_path / "train.jsonl.xz", "at") as file:
        file.write(json.dumps({"id": 50, "sents": ARTICLES[0]}) + "\n")
    with pytest.raises(ValueError, match="holds what was made from other news data"):
        open_tasks(tmp_path, tmp_path / "work", n_tasks=300)


def leaked(tasks, seen):
    """The tasks that were made of a sentence which training has seen."""
    pieces = {(*words[:i], None, *words[j:]) for s in seen if (words := s.split()) for i, j in holes(len(words))}
    found = set()
    if any((*t.words[: (gap := t.gaps[t.answer])], None, *t.words[gap:]) in pieces for t in tasks.locate):
        found.add("locate")
    if any(sentence in f"{task.left} {task.answer} {task.right}" for task in tasks.infill for sentence in seen):
        found.add("infill")
    if {sentence for task in tasks.delete for sentence in task.sentences} & seen:
        found.add("delete")
    return found


def holes(n_words):
    return [(i, j) for i in range(1, n_words) for j in range(i + 1, n_words)]


# --- what needs no model ---------------------------------------------------------------------------------------


def assert_nothing_gives_the_answer_away(tasks, points):
    for name, above_chance in heuristics(tasks).items():
        assert abs(above_chance) < points, name
    located, deleted = random_choices(tasks)
    assert located.value == pytest.approx(20, abs=points)
    assert deleted.value == pytest.approx(100 / 3, abs=points)


def test_rules_that_know_no_language_are_no_better_than_chance(tasks):
    assert_nothing_gives_the_answer_away(tasks, points=4)  # 2,000 instances: two standard deviations are 2


def test_a_heuristic_that_works_would_be_noticed(tasks):
    first = [task for task in tasks.delete if task.answer == 1]
    longest = [t for t in tasks.delete if max((1, 2, 3), key=lambda i: len(t.sentences[i])) == t.answer]
    assert heuristics(replace(tasks, delete=tuple(first)))["Delete, sentence 2"] == pytest.approx(200 / 3)
    assert heuristics(replace(tasks, delete=tuple(longest)))["Delete, the longest sentence"] > 60


needs_news = pytest.mark.skipif("XL_EDITOR_NEWS" not in os.environ, reason="XL_EDITOR_NEWS names a directory")


@pytest.mark.slow
@needs_news
def test_no_real_task_was_seen_in_training(tmp_path):
    """Of the corpus that ours are made from, nine test articles share six sentences with training."""
    data = Path(os.environ["XL_EDITOR_NEWS"])
    seen = long_sentences(read_articles(packed_or_not(data, "train")))
    shared = [sentence for article in read_articles(packed_or_not(data, "test")) for sentence in set(article) & seen]
    assert (len(shared), len(set(shared))) == (9, 6)
    assert not leaked(open_tasks(data, tmp_path), set(shared))


@pytest.mark.slow
@needs_news
@pytest.mark.parametrize("objective", ["xl-editor", "l2r", "seq2seq"])
def test_the_real_tasks_give_nothing_away(objective, tmp_path):
    """Within 3 points of chance: heuristics, and every kind of model with random weights."""
    data = Path(os.environ["XL_EDITOR_NEWS"])
    tasks = open_tasks(data, tmp_path)
    assert_nothing_gives_the_answer_away(tasks, points=3)
    texts = (sentence for article in islice(read_articles(packed_or_not(data, "test")), 500) for sentence in article)
    scores = evaluate_news(
        untrained(objective, texts, tmp_path), replace(tasks, infill=tasks.infill[:20]), progress=False
    )
    assert scores.locate.value == pytest.approx(20, abs=3)
    assert scores.delete.value == pytest.approx(100 / 3, abs=3)
    assert scores.delete_rank.value == pytest.approx(100 / 3, abs=3)
    assert scores.delete_information.value == pytest.approx(100 / 3, abs=3)


def untrained(objective, texts, directory):
    """The rules of a model with random weights and a vocabulary from these texts."""
    tokenizer = train_tokenizer(texts, "bpe", size=8000)
    tokenizer.save(str(directory / TOKENIZER_FILE))
    codec = Codec.from_file(directory / TOKENIZER_FILE, TextFormat())
    ids = special_ids(tokenizer)
    context = ContextFormat(sep=ids.sep, cls=ids.cls, unk=ids.unk, mask=ids.mask)
    size = ModelRecipe(n_layer=2, n_head=4, d_model=64, d_inner=128)
    torch.manual_seed(0)
    if objective == "seq2seq":
        recipe = Recipe(objective=objective, data=DataRecipe((), ()), optim=OptimRecipe(1e-3, 1, 1), model=size)
        model = Seq2Seq(new_transformer(recipe, tokenizer, ids, {}), context)
        return EndRules(codec, model.score, model.decode)
    config = XLEditorConfig(
        vocab_size=tokenizer.get_vocab_size(),
        n_layer=size.n_layer,
        d_model=size.d_model,
        d_inner=size.d_inner,
        end_token_id=ids.end,
        editor={"context": context.to_dict()},
    )
    network = XLEditorModel(config)
    if objective == "l2r":
        return PairRules(codec, LeftToRight(network, context))
    return rules_of(Editor(network, codec))


def test_too_few_articles_are_refused():
    with pytest.raises(ValueError, match="too few or too short"):
        make_tasks([["one two three"]], n_tasks=5)
    articles = [[f"{n} {word} two three four five six seven ." for n in range(5)] for word in ("one", "ten")]
    with pytest.raises(ValueError, match="for 100000 tasks of each kind"):  # and soon
        make_tasks(articles, n_tasks=100_000)
    with pytest.raises(ValueError, match="no test article without a sentence that training had"):
        make_tasks([["one two three"]], n_tasks=5, seen={"one two three"})


def tasks_of_known_words() -> NewsTasks:
    random = Random(0)
    known = ["the", "food", "was", "great", "staff", "slow"]
    articles = [[" ".join(random.choices(known, k=random.randint(8, 14))) for _ in range(12)] for _ in range(30)]
    return make_tasks(articles, n_tasks=12)


def test_an_evaluation_that_was_interrupted_goes_on(editor, tmp_path, monkeypatch):
    tasks, rules, asked = tasks_of_known_words(), rules_of(editor), []
    monkeypatch.setattr(news, "TASKS_AT_ONCE", 5)
    fill = rules.fill

    def interrupted(blanks):
        asked.append(len(blanks))
        if len(asked) == 2:
            raise KeyboardInterrupt
        return fill(blanks)

    rules.fill = interrupted
    with pytest.raises(KeyboardInterrupt):
        evaluate_news(rules, tasks, tmp_path, progress=False)
    (kept,) = tmp_path.iterdir()
    kept.write_text(kept.read_text() + '["Infill, bounded from 5", [["cut sho')
    scores = evaluate_news(rules, tasks, tmp_path, progress=False)
    assert asked == [5, 5, 5, 2]  # what was interrupted is asked again, and nothing else
    assert scores == evaluate_news(rules_of(editor), tasks, progress=False)
    assert len(kept.read_text().splitlines()) == 9


def test_answers_are_kept_for_one_way_to_read(editor, toy_directory, tmp_path):
    tasks, rules, other = tasks_of_known_words(), rules_of(editor), rules_of(editor)
    format = replace(editor.codec.format, tokenise=not editor.codec.format.tokenise)
    other.codec = Codec.from_file(toy_directory / TOKENIZER_FILE, format)
    for asked in (rules, other, rules):
        evaluate_news(asked, tasks, tmp_path, progress=False)
    assert len(list(tmp_path.iterdir())) == 2


def test_locate_decides_as_the_editor_does(editor):
    tasks = tasks_of_known_words()
    scores = evaluate_news(rules_of(editor), tasks, progress=False)
    n_right = 0
    for task in tasks.locate:
        answers = {len(" ".join(task.words[:gap])) + 1: index for index, gap in enumerate(task.gaps)}
        best = next(slot for slot in editor.locate(" ".join(task.words), top=100) if slot.char in answers)
        n_right += answers[best.char] == task.answer
    assert scores.locate.value == pytest.approx(100 * n_right / len(tasks.locate))
    assert len(scores.infilled) == len(tasks.infill)
    assert "Locate" in scores.render()
    for name, told in json.loads(json.dumps(scores.to_dict())).items():
        found = getattr(scores, name)
        if isinstance(told, dict):
            assert (told["value"], Interval(**told["interval"])) == (found.value, found.interval)
        else:
            assert (None if told is None else tuple(told)) == found


def test_a_margin_is_paired():
    """Two models that differ in 20 of 1,000 answers differ by 2 points, surely; though either may be 3 points off."""
    one = np.arange(1000) % 2 == 0
    other = one.copy()
    other[:40] = False  # of which 20 were right
    ahead = measured_share(one) - measured_share(other)
    assert ahead.value == pytest.approx(2)
    deviation = 100 * math.sqrt(0.02 * 0.98 / 1000)
    assert ahead.interval.low == pytest.approx(2 - 1.96 * deviation, abs=0.2)
    assert ahead.interval.high == pytest.approx(2 + 1.96 * deviation, abs=0.2)
    assert measured_share(one).interval.low < measured_share(other).value
    nothing = measured_share(one) - measured_share(one)
    assert (nothing.value, nothing.interval) == (0, Interval(0, 0))
