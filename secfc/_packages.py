"""Check that `field` and `psu` are ours: two unrelated projects publish packages of these names."""

from __future__ import annotations

import importlib


def check(name: str) -> None:
    """Import one of our companion packages and refuse a stranger.

    Raises ImportError naming the file that shadows ours and the remedy.
    """
    try:
        module = importlib.import_module(name)
    except SyntaxError as error:  # the package `field` of the index is Python 2 code
        raise ImportError(_explain(name, str(error.filename))) from error
    if not hasattr(module, "__secfc__"):
        raise ImportError(_explain(name, str(getattr(module, "__file__", "an unknown place"))))


def _explain(name: str, where: str) -> str:
    return (
        f"the package {name!r} imported from {where} is not the one that secfc-clustering ships. "
        f"If it is a file of yours, rename it; if it was installed, run "
        f"`pip uninstall {name}` and then `pip install --force-reinstall secfc-clustering`."
    )
