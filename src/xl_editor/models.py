"""Which models there are, and where: the bundled ones, directories, and the hub's."""

from __future__ import annotations

from pathlib import Path

from xl_editor.errors import ModelError
from xl_editor.files import expanded

BUNDLED = Path(__file__).parent / "models"
DEFAULTS = ("news", "yelp")  # of the bundled models: for what names no style, and for what does
DOWNLOADED = ("*.json", "model.safetensors", "*.model")  # of a model of the hub


def bundled_models() -> dict[str, Path]:
    """The models that came with the package, by name; first those that answer where none is named."""
    names = sorted((path.parent.name for path in BUNDLED.glob("*/config.json")), key=lambda n: (n not in DEFAULTS, n))
    return {name: BUNDLED / name for name in names}


def find_model(name: str | Path) -> Path:
    """A bundled model, a directory or a model of the hub."""
    bundled = bundled_models()
    if str(name) in bundled:
        return bundled[str(name)]
    try:
        return _find_directory(name)
    except ModelError as error:
        known = f" Bundled models: {', '.join(bundled)}." if bundled else ""
        raise ModelError(f"{error}{known}") from None


def _find_directory(name: str | Path) -> Path:
    """A model's directory: the one given, or a hub's, downloaded."""
    path = expanded(name)
    if path.is_dir():
        return path
    if path.exists() or str(name).startswith((".", "/", "~")):
        raise ModelError(f"{name} is not a directory with a model in it.")
    from huggingface_hub import snapshot_download  # costs a second to import, and most models are local

    try:
        return Path(snapshot_download(str(name), allow_patterns=list(DOWNLOADED)))
    except Exception as error:
        reason = str(error).splitlines()[0].rstrip(".") if str(error) else type(error).__name__
        raise ModelError(f"{name!r} is no directory, and huggingface.co does not give it ({reason}).") from None
