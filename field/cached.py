"""Values that are computed once: of a property, as `functools.cached_property` of Python 3.12; of coins."""

from __future__ import annotations

import functools
import weakref
from collections.abc import Callable, Hashable
from typing import TYPE_CHECKING, Any, TypeVar

V = TypeVar("V")

if TYPE_CHECKING:
    from functools import cached_property as cached_property
else:

    class cached_property(functools.cached_property):  # noqa: N801 - it stands for the one that it replaces
        """A property whose value is computed when it is first read, and kept in the instance.

        That of Python 3.11 holds a lock of all instances meanwhile.  A process that is forked in that time
        gets the lock and no thread that will release it, so a fit in it would wait for ever.  Two threads
        that read the property at once may both compute its value, which is the same.
        """

        def __get__(self, instance: Any, owner: type[Any] | None = None) -> Any:
            if instance is None:
                return self
            found = instance.__dict__
            if self.attrname not in found:
                found[self.attrname] = self.func(instance)
            return found[self.attrname]


class SharedValues(weakref.WeakValueDictionary[Hashable, Any]):
    """What follows from public coins, for as long as anybody holds it.

    Each party computes it.  Where one process plays them all, the first one does: all have the same.
    """

    def take(self, key: Hashable, compute: Callable[[], V]) -> V:
        """The value of this key, which has to name all that it follows from; computed if nobody holds it."""
        held: V | None = self.get(key)
        found = compute() if held is None else held
        if held is None and found is not None:
            self[key] = found
        return found
