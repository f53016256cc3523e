"""Requests that cannot be met. Whatever else is raised is a bug, and looks like one."""

from __future__ import annotations


class RequestError(ValueError):
    """What was asked for cannot be done: one sentence that says what would be accepted, for whoever asked.

    `argument` is the name of what is to blame, if it is one argument; the sentence then begins with it.
    """

    def __init__(self, message: str, argument: str | None = None) -> None:
        super().__init__(message)
        self.argument = argument

    def __reduce__(self) -> tuple[type[RequestError], tuple[str, str | None]]:
        return type(self), (str(self), self.argument)  # also from another process


class EditorError(RequestError):
    """A request to an editor that cannot be met."""


class TextError(EditorError):
    """The same, where it is the text that cannot be dealt with: another one might be."""


class ModelError(RequestError):
    """A model that cannot be built, loaded or asked what it was asked."""
