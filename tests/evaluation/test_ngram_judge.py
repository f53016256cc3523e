"""The judge of n-grams: what it computes is what scikit-learn's model would, and it comes back from its files."""

import numpy as np
import pytest
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.linear_model import LogisticRegression

from xl_editor.evaluation.ngram_judge import CARD_FILE, WEIGHTS_FILE, NgramClassifier, ngrams, train_ngram_classifier

NEGATIVE = ["not good at all .", "the food was not good .", "bad food !", "bad bad service .", "it was not good ."]
POSITIVE = ["good food .", "very good .", "the service was good .", "it was good and not bad !", "so good , so good ."]
LINES = {"neg": NEGATIVE, "pos": POSITIVE}
ASKED = ["good", "not good", "not bad at all", "never heard", "", "Good FOOD ."]


@pytest.fixture(scope="module")
def classifier():
    return train_ngram_classifier(LINES, {"neg": ["not good ."], "pos": ["good .", "not good ."]})


def test_ngrams_are_runs_of_one_to_three_words():
    assert list(ngrams("A b c d")) == ["a", "b", "c", "d", "a b", "b c", "c d", "a b c", "b c d"]
    assert list(ngrams("")) == []


def test_it_is_what_scikit_learn_computes(classifier):
    counter = CountVectorizer(ngram_range=(1, 3), token_pattern=r"\S+", min_df=2, binary=True)
    features = counter.fit_transform([*NEGATIVE, *POSITIVE])
    model = LogisticRegression(solver="liblinear", class_weight="balanced").fit(features, [0] * 5 + [1] * 5)
    assert classifier.logits(ASKED) == pytest.approx(model.decision_function(counter.transform(ASKED)), abs=1e-6)
    assert set(classifier.weights) == set(counter.get_feature_names_out())


def test_a_word_said_again_and_again_counts_once(classifier):
    assert classifier.logits(["bad x bad y bad"]) == pytest.approx(classifier.logits(["bad"]))


def test_every_text_has_one_of_the_two_styles(classifier):
    assert (classifier.is_style(ASKED, "neg") == ~classifier.is_style(ASKED, "pos")).all()
    assert classifier.is_style(["not good ."], "neg").tolist() == [True]
    assert classifier.dev_accuracy == pytest.approx(200 / 3)
    with pytest.raises(ValueError, match="Unknown style 'sad': this classifier knows neg and pos"):
        classifier.is_style(ASKED, "sad")


def test_it_comes_back_as_it_was_saved(classifier, tmp_path):
    classifier.save(tmp_path)
    assert NgramClassifier.load(tmp_path) == classifier
    assert np.array_equal(NgramClassifier.load(tmp_path).logits(ASKED), classifier.logits(ASKED))


@pytest.mark.parametrize("name", [CARD_FILE, WEIGHTS_FILE])
def test_a_damaged_one_is_told(name, classifier, tmp_path):
    classifier.save(tmp_path)
    (tmp_path / name).write_bytes(b"{}")
    with pytest.raises(ValueError, match="holds no readable n-gram classifier"):
        NgramClassifier.load(tmp_path)
