"""Clients' tables, as callers list them."""

from __future__ import annotations

from collections.abc import Iterable
from os import PathLike
from typing import Any

import numpy as np

from secfc.data.arguments import a_kind
from secfc.data.inputs import InputError, names_of
from secfc.data.party import Party


def each(data: Any) -> list[Any]:
    """Clients' tables, in order.  Raises InputError for what is no list of them."""
    if isinstance(data, Party):
        raise InputError(
            f"the federation is one client, {data.name!r}: a list of clients is needed. Use "
            "Federation((party, ...))."
        )
    if (
        names_of(data) is not None
        or (isinstance(data, np.ndarray) and data.ndim <= 2)
        or hasattr(data, "toarray")
    ):
        raise InputError(
            f"the federation is one {type(data).__name__} of shape {getattr(data, 'shape', ())}: a list of "
            "them "
            "is needed, one a client. Cut it, or use Federation.from_labelled to deal it out."
        )
    files = [data] if isinstance(data, str | PathLike) else data if isinstance(data, list | tuple) else ()
    if any(isinstance(item, str | PathLike) for item in files):
        raise InputError(
            "the federation is given by names of files: points are needed. Use Federation.from_files(paths)."
        )
    if not isinstance(data, Iterable):
        raise InputError(
            f"the federation is {a_kind(data)}: a Federation, or a list of arrays, one a client, is needed. "
            "Use "
            "Federation.from_arrays, or pass such a list."
        )
    each = list(data)
    if not each:
        raise InputError("the federation has no clients: at least one is needed. Add an array.")
    return each
