"""Where modules were before they got rooms: the names that version 0.1.0 offered still import.

An old module is a thin one of the same name that hands on what is asked of it.  What has a new name is found
there only: nothing in the project uses an old one.
"""

from __future__ import annotations

import importlib
import sys
import warnings
from collections.abc import Callable, Mapping, Sequence
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any


def handing_on(old: str, homes: Sequence[str]) -> Callable[[str], Any]:
    """A `__getattr__` for the module `old`: names are looked up in the modules `homes`, in their order."""

    def get(name: str) -> Any:
        if not name.startswith("__"):
            for home in homes:
                module = importlib.import_module(home)
                if hasattr(module, name):
                    return getattr(module, name)
        raise AttributeError(f"module {old!r} has no attribute {name!r}")

    return get


class Old(ModuleType):
    """An old module.  Once it is imported it hides what its package offers under the same name, so it can be
    called as that (`secfc.plan`).
    """

    def __call__(self, *given: Any, **named: Any) -> Any:
        package, _, name = self.__name__.rpartition(".")
        return sys.modules[package].__getattr__(name)(*given, **named)


class Moved:
    """Finds old modules, and loads them: homes maps the name of each to the modules that hold its names now.

    A finder and a loader by what it does: their base classes would double the time that an import takes.
    """

    def __init__(self, homes: Mapping[str, Sequence[str]]) -> None:
        self.homes = homes

    def find_spec(self, fullname: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        return ModuleSpec(fullname, self) if fullname in self.homes else None  # type: ignore[arg-type]

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        return Old(spec.name, f"Now {', '.join(self.homes[spec.name])}.")

    def exec_module(self, module: ModuleType) -> None:
        homes = self.homes[module.__name__]
        message = f"{module.__name__} has moved: its names are in {' and '.join(homes)} now"
        warnings.warn(message, DeprecationWarning, stacklevel=2)
        module.__getattr__ = handing_on(module.__name__, homes)  # type: ignore[method-assign]


def install(homes: Mapping[str, Sequence[str]]) -> None:
    """Old modules import from now on."""
    sys.meta_path.append(Moved(homes))
