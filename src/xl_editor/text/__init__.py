"""From the text that people write to the tokens that a model reads, and back, without losing a character.

Going in, ``Codec.encode`` writes the text as the model's training text was written (``TextFormat``),
tokenises it, and traces every token back to characters of the text *as the user gave it*. Going out,
``Codec.apply`` replaces ranges of tokens: what is untouched stays as it was, and what is new is written as
this user writes.

    "The food wasn't good!"  ──>  the food was n't good !       what a Yelp model reads
                                           ╰──┬───╯
                                    replace by "delicious"
    "The food was delicious!" <──  the food was delicious !
"""

from .blanks import BLANK, split_blanks, without_blank
from .codec import TOKENIZER_FILE, Codec, starts_word
from .encoded import EncodedText, TextFormat
from .rewriting import Applied
from .words import Span, is_clitic, joined, would_fuse

__all__ = [
    "BLANK",
    "TOKENIZER_FILE",
    "Applied",
    "Codec",
    "EncodedText",
    "Span",
    "TextFormat",
    "is_clitic",
    "joined",
    "split_blanks",
    "starts_word",
    "without_blank",
    "would_fuse",
]
