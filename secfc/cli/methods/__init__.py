"""The algorithms that `secfc run` offers, a file for those of one kind.

A new one is a file beside these with METHODS, values of `secfc.cli.shell.method.Method`, and its name in
the list.
"""

from __future__ import annotations

from functools import cache
from importlib import import_module

from secfc.cli.shell.method import Method
from secfc.cli.shell.options import Option

# The first is the default; help is in this order.
NAMES = ("secfc", "feddp", "overlap", "baselines")


@cache
def methods() -> dict[str, Method]:
    """All methods by the word for --algorithm."""
    modules = [import_module(f"{__name__}.{name}") for name in NAMES]
    return {method.name: method for module in modules for method in module.METHODS}


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
