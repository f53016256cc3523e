"""XL-Editor: locate, insert, replace, delete and restyle text with variable-length insertion probabilities.

from xl_editor import Editor

editor = Editor.from_pretrained("yelp")
editor.infill("the food was [_] priced .")
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from xl_editor.editor import Editor
    from xl_editor.edits import Correction, Deletion, Edit, Filling, Score, Slot, Trace
    from xl_editor.errors import EditorError, ModelError

__all__ = ["Correction", "Deletion", "Edit", "Editor", "EditorError", "Filling", "ModelError", "Score", "Slot", "Trace"]
__version__ = "0.1.0"


def __getattr__(name: str) -> Any:
    """Import torch only when an editor is asked for: `xl-editor --help` must not wait for it."""
    if name in __all__:
        module = {"Editor": "editor", "EditorError": "errors", "ModelError": "errors"}.get(name, "edits")
        return getattr(import_module(f"xl_editor.{module}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
