"""The int8 backend: nearly the same answers, from the bundled model."""

import pytest
import torch

from xl_editor import Editor
from xl_editor.errors import EditorError, ModelError
from xl_editor.models import bundled_models

pytestmark = pytest.mark.skipif(
    "yelp" not in bundled_models() or "fbgemm" not in torch.backends.quantized.supported_engines,
    reason="no model is bundled, or the processor has no int8 products",
)
SENTENCES = ["The waitress was rude and slow.", "i love this place .", "we waited an hour for a cold pizza ."]


@pytest.fixture(scope="module")
def exact():
    return Editor.from_pretrained("yelp")


@pytest.fixture(scope="module")
def int8():
    return Editor.from_pretrained("yelp", backend="int8")


def test_probabilities_are_near(exact, int8):
    for sentence in SENTENCES:
        here, there = (
            {slot.char: slot.logprob_end for slot in editor.locate(sentence, top=99)} for editor in (exact, int8)
        )
        assert here == pytest.approx(there, abs=0.1)
        assert here != there  # it does compute otherwise
        assert exact.classify(sentence) == pytest.approx(int8.classify(sentence), abs=0.03)


def test_the_best_choice_is_the_same(exact, int8):
    for sentence in SENTENCES:
        assert int8.infill(f"{sentence} [_]", n=1)[0].text == exact.infill(f"{sentence} [_]", n=1)[0].text
    (here,), (there,) = (editor.transfer_all(SENTENCES[:1], to="positive") for editor in (exact, int8))
    assert here.text == there.text


def test_what_cannot_be_is_refused(int8, tmp_path):
    with pytest.raises(EditorError, match="no longer has the weights to save"):
        int8.save_pretrained(tmp_path)
    with pytest.raises(EditorError, match="backend must be one of torch, int8, got 'int4'"):
        Editor.from_pretrained("yelp", backend="int4")
    with pytest.raises(ModelError, match="starts from dtype float32"):
        Editor.from_pretrained("yelp", backend="int8", dtype=torch.bfloat16)
