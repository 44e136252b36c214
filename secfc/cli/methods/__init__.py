"""The algorithms that `secfc run` offers, a file for those of one kind.

A new one is a file beside these with METHODS, values of `secfc.cli.shell.method.Method`, and its name in
the list.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from importlib import import_module

import click

from secfc.cli.shell.method import Method
from secfc.cli.shell.options import Option, refuse_options

# The first is the default; help is in this order.
NAMES = ("secfc", "pairs", "feddp", "overlap", "baselines")


@cache
def methods() -> dict[str, Method]:
    """All methods by the word for --algorithm."""
    modules = [import_module(f"{__name__}.{name}") for name in NAMES]
    return {method.name: method for module in modules for method in module.METHODS}


def method_asked(context: click.Context) -> Method:
    """The method of a command line: for centers that clients may see, the one that shows these alone."""
    name = context.params["algorithm"]
    shown = name == "secfc" and context.params.get("disclosure") == "centers"
    return methods()["federated-lloyd" if shown else name]


def refuse_idle_options(context: click.Context, method: Method, idle: Sequence[str]) -> None:
    """Raise UsageError for an option of these that was given: the method does not take it."""
    shows_centers = context.params.get("disclosure") == "centers"
    what = "--disclosure centers" if shows_centers else f"--algorithm {method.name}"
    noisy = "which is --disclosure centers with noise" if shows_centers else "whose centers carry noise"
    refuse_options(
        context,
        {"epsilon"}.intersection(idle),
        f"{{option}}: {what} adds no noise. For a budget use FedDP-KMeans (`secfc dp`), {noisy}.",
    )
    why = f"{{option}} has no meaning for --algorithm {method.name}: leave it out."
    if shows_centers:
        refuse_options(
            context,
            {"membership"}.intersection(idle),
            "{option}: rows are counted where they lie, so whoever holds one knows that it counts. Use "
            "another --disclosure, or remove duplicates first.",
        )
        why = (
            "{option} has no meaning for --disclosure centers: nothing is computed on shares. Leave it out, "
            "or use --disclosure distances."
        )
    refuse_options(context, idle, why)


def options(*names: str) -> dict[str, Option]:
    """The options of methods of these names by name, each once; without names of all methods.

    Raises ValueError for two that share a name: methods share an option by listing the same one.
    """
    found: dict[str, Option] = {}
    for method in (methods()[name] for name in names or methods()):
        for option in method.options:
            if found.setdefault(str(option.name), option).origin is not option.origin:
                raise ValueError(
                    f"{option.opts[0]} of {method.name} is another option than that of a method before it: "
                    "take that of a class that both derive from, or name it differently"
                )
    return found
