"""Every module of the three packages, loaded: so that every message has shown its tag."""

import importlib
import pkgutil
from functools import cache

import field
import psu
import secfc
from psu.messages import TAGS


@cache
def every_message():
    """All message classes of the product, by name."""
    for package in (field, psu, secfc):
        for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            # The one module that needs NVIDIA FLARE defines no message.
            if not module.name.endswith(("__main__", "flare.job")):
                importlib.import_module(module.name)
    return sorted(
        (c for c in TAGS.values() if c.__module__.split(".")[0] != "tests"), key=lambda c: c.__name__
    )
