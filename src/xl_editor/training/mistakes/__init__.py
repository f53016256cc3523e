"""How people get English wrong: for each kind of mistake, where it can be made and what it makes."""

from xl_editor.training.mistakes import function_words, inflection, marks, spelling, vocabulary
from xl_editor.training.mistakes.kinds import MISTAKES, Change
from xl_editor.training.mistakes.passage import Passage, Word, read_word

__all__ = [
    "MISTAKES",
    "Change",
    "Passage",
    "Word",
    "function_words",
    "inflection",
    "marks",
    "read_word",
    "spelling",
    "vocabulary",
]
