"""The algorithms that `secfc run` offers, a file each.

A new one is a file beside these whose METHOD is a `secfc.cli.method.Method`, and its name in the list.
"""

from __future__ import annotations

from functools import cache
from importlib import import_module

from secfc.cli.method import Method
from secfc.cli.options import Option

# The first is the default; help is in this order.
NAMES = ("secfc", "feddp", "overlap", "overlap1", "overlap2", "lloyd", "kfed")


@cache
def methods() -> dict[str, Method]:
    """All methods by the word for --algorithm."""
    found: list[Method] = [import_module(f"{__name__}.{name}").METHOD for name in NAMES]
    return {method.name: method for method in found}


def options() -> dict[str, Option]:
    """The options of all methods by name, each once.

    Raises ValueError for two that share a name: methods share an option by listing the same one.
    """
    found: dict[str, Option] = {}
    for method in methods().values():
        for option in method.options:
            if found.setdefault(str(option.name), option).origin is not option.origin:
                raise ValueError(
                    f"{option.opts[0]} of {method.name} is another option than that of a method before it: "
                    "take that of a class that both derive from, or name it differently"
                )
    return found
