"""XL-Editor: locate, insert, replace, delete and restyle text with variable-length insertion probabilities.

from xl_editor import Editor

editor = Editor.from_pretrained("yelp")
editor.infill("the food was [_] priced .")
"""

from typing import Any

__all__ = ["Edit", "Editor", "Score", "Trace"]
__version__ = "0.1.0"


def __getattr__(name: str) -> Any:
    """Import torch only when an editor is asked for: `xl-editor --help` must not wait for it."""
    if name == "Editor":
        from xl_editor.editor import Editor

        return Editor
    if name in __all__:
        from xl_editor import edits

        return getattr(edits, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
