"""What several test files share: tiny models, and a random but always valid insertion problem."""

import pytest
import torch
from hypothesis import settings

from xl_editor.model import XLEditorConfig, XLEditorModel

# A busy machine makes an example slow, and no test watches the clock.
settings.register_profile("no deadline", deadline=None)
settings.load_profile("no deadline")


def tiny_model(seed: int = 0, **settings) -> XLEditorModel:
    """A model small enough for exhaustive checks, with weights large enough that its answers differ."""
    torch.manual_seed(seed)
    defaults = {"vocab_size": 31, "d_model": 32, "n_layer": 3, "n_head": 4, "d_inner": 48, "dropout": 0.0}
    model = XLEditorModel(XLEditorConfig(**{**defaults, **settings}))
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.normal_(std=0.3)
    return model.eval()


@pytest.fixture(scope="session")
def model() -> XLEditorModel:
    return tiny_model()


SPECIAL = {"sep": 3, "cls": 2, "unk": 1, "mask": 4}
STYLES = {"negative": 10, "positive": 11}


def tiny_engine(xlnet: bool = False, **settings):
    """An engine of twelve tokens: five special ones, END, the words 6..9 and two styles."""
    from xl_editor.context import ContextFormat
    from xl_editor.engine import Engine

    with_end = {"end_token_id": 5, **settings}
    model = tiny_model(vocab_size=12, n_labels=2, **with_end)
    return Engine(model, ContextFormat(**SPECIAL, styles=STYLES, xlnet=xlnet))


SENTENCES = [
    "the food was n't good !",
    "the food was great and the service was slow .",
    "i paid _num_ dollars for the pizza , and it 's cold .",
    "we will come back again , the staff is very friendly .",
]


@pytest.fixture(scope="session")
def toy_directory(tmp_path_factory):
    """A model directory such as training leaves it: words of a few sentences, random weights, two styles."""
    from xl_editor.context import ContextFormat
    from xl_editor.training.vocabulary import special_ids, train_tokenizer

    directory = tmp_path_factory.mktemp("toy")
    tokenizer = train_tokenizer(SENTENCES, "word", styles=["negative", "positive"])
    ids = special_ids(tokenizer)
    context = ContextFormat(sep=ids.sep, cls=ids.cls, unk=ids.unk, mask=ids.mask, styles=ids.styles)
    text = {"lowercase": True, "tokenise": True, "number": "_num_"}
    model = tiny_model(
        vocab_size=tokenizer.get_vocab_size(),
        n_labels=2,
        end_token_id=ids.end,
        pad_token_id=ids.pad,
        editor={"context": context.to_dict(), "text": text},
    )
    with torch.no_grad():
        model.lm_loss.bias[ids.end] += 2.0  # what is put in is short, as it is after training
    model.save_pretrained(directory)
    tokenizer.save(str(directory / "tokenizer.json"))
    return directory


@pytest.fixture(scope="session")
def editor(toy_directory):
    from xl_editor import Editor

    return Editor.from_pretrained(toy_directory)


RIGHT_SENTENCES = [
    "I don't know it.",
    "She paid a lot, and it's fine!",
    'He said: "We are here".',
    "The cat sat on a mat.",
]


@pytest.fixture(scope="session")
def wild_directory(tmp_path_factory):
    """A model with the control token of corrections that knows nothing, and so changes nearly everything."""
    from xl_editor.context import ContextFormat
    from xl_editor.training.vocabulary import special_ids, train_tokenizer

    directory = tmp_path_factory.mktemp("wild")
    tokenizer = train_tokenizer(RIGHT_SENTENCES * 3, "bpe", size=330, correcting=True)
    ids = special_ids(tokenizer)
    context = ContextFormat(sep=ids.sep, cls=ids.cls, unk=ids.unk, mask=ids.mask, correct=ids.correct)
    model = tiny_model(
        vocab_size=tokenizer.get_vocab_size(),
        end_token_id=ids.end,
        pad_token_id=ids.pad,
        editor={"context": context.to_dict(), "correct": {"threshold": 0.5, "max_rounds": 2}},
    )
    with torch.no_grad():
        model.lm_loss.bias[ids.end] += 9.0  # what it puts in is short,
        model.lm_loss.bias[260:] += 8.0  # and mostly words
    model.save_pretrained(directory)
    tokenizer.save(str(directory / "tokenizer.json"))
    return directory
