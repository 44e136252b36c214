"""A fault of the program reads as one, never as advice about input: in `fit` and in the shell.

What is told as input is what derives from `InvalidValue`; the errors of kernels and protocols do not.
"""

from __future__ import annotations

import ast
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

import secfc
from field.code.lagrange_code import TooFewValues
from field.code.masking import MaskReused
from field.code.reed_solomon import TooManyFalse
from field.code.reply_check import OffPolynomial
from field.ring.errors import InvalidValue
from secfc.cli import main
from secfc.errors import InputError

ROOT = Path(__file__).parents[2]
# Kernels, the code, a policy and a role: places in which a run computes.
PLACES = (
    "field.kernels.scalar.mask_and_find",
    "field.kernels.comparing.evaluate",
    "field.code.lagrange_code.LagrangeCode.share",
    "secfc.disclosure.compare.client.labels_from_shares",
    "secfc.coded_kmeans.secfc.run_server",
)


def _raising(error: BaseException) -> Callable[..., Any]:
    def broken(*_: Any, **__: Any) -> Any:
        raise error

    return broken


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("kind", [ValueError, TooFewValues])
def test_a_fault_inside_of_a_fit_is_not_told_as_input(
    monkeypatch: pytest.MonkeyPatch, place: str, kind: type[Exception]
) -> None:
    error = kind("ours") if kind is ValueError else kind(5, 3)
    monkeypatch.setattr(place, _raising(error))
    rng = np.random.default_rng(1)
    with pytest.raises(kind) as caught:
        secfc.fit(secfc.SecFC(k=2, threshold=1), [rng.normal(size=(9, 2)) for _ in range(5)], seed=1)
    assert caught.value is error
    assert not isinstance(caught.value, InvalidValue)


def test_a_fault_inside_of_secfc_run_is_an_internal_error(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    error = ValueError("ours")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(PLACES[0], _raising(error))
    result = CliRunner().invoke(main, ["run", "-k", "2", "-t", "1"])
    assert (result.exit_code, result.exception) == (1, error)
    assert any("Internal error of secfc: your input" in note for note in error.__notes__)
    assert "ours" not in result.stderr, "told as a message, as if it were the user's to mend"


def test_what_is_invalid_inside_of_a_fit_is_told_as_input(monkeypatch: pytest.MonkeyPatch) -> None:
    """The positive control: the same place, with the class that doors tell."""
    monkeypatch.setattr(PLACES[0], _raising(InvalidValue("scale=3: lower it")))
    rng = np.random.default_rng(1)
    with pytest.raises(InputError, match="scale=3: lower it"):
        secfc.fit(secfc.SecFC(k=2, threshold=1), [rng.normal(size=(9, 2)) for _ in range(5)], seed=1)


def test_errors_of_protocols_are_no_value_errors() -> None:
    for kind in (TooFewValues, TooManyFalse, OffPolynomial, MaskReused):
        assert not issubclass(kind, ValueError)
    assert issubclass(InputError, InvalidValue)


def test_no_command_tells_any_value_error_as_input() -> None:
    found = []
    for path in sorted((ROOT / "secfc/cli").rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "bad_input":
                named = {ast.unparse(argument) for argument in node.args}
                found += [path.name] if named & {"ValueError", "Exception"} else []
    assert found == []
