"""Check digits of identifiers.  Each function takes normalized text and says whether its last sign fits.

Further ones are plug-ins: entry points of the group `secfc.check_digits`, whose name a schema gives.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib.metadata import entry_points

from secfc.data.inputs import InputError

Check = Callable[[str], bool]

# The dihedral group of order 10 and the powers of a permutation (Verhoeff 1969).
_PRODUCT = (
    "0123456789", "1234067895", "2340178956", "3401289567", "4012395678",
    "5987604321", "6598710432", "7659821043", "8765932104", "9876543210",
)  # fmt: skip
_POWERS = (
    "0123456789", "1576283094", "5803796142", "8916043527", "9453126870", "4286573901", "2793806415",
    "7046913258",
)  # fmt: skip


def luhn(text: str) -> bool:
    """ISO/IEC 7812-1: from the right, every second digit doubled, digits summed to a multiple of 10."""
    if not _digits(text):
        return False
    doubled = (int(digit) * (1 + i % 2) for i, digit in enumerate(reversed(text)))
    return sum(value // 10 + value % 10 for value in doubled) % 10 == 0


def mod11(text: str) -> bool:
    """Weights 1, 2, 3, ... from the right sum to a multiple of 11; a last X is 10 (ISBN-10, NHS numbers)."""
    body, last = text[:-1], text[-1:]
    if not _digits(body) or not (last == "X" or _digits(last)):
        return False
    values = [10 if last == "X" else int(last), *(int(digit) for digit in reversed(body))]
    return sum(weight * value for weight, value in enumerate(values, 1)) % 11 == 0


def verhoeff(text: str) -> bool:
    """Verhoeff's dihedral code, which finds every single error and every swap of neighbors."""
    if not _digits(text):
        return False
    product = 0
    for i, digit in enumerate(reversed(text)):
        product = int(_PRODUCT[product][int(_POWERS[i % 8][int(digit)])])
    return product == 0


CHECKS: dict[str, Check] = {"luhn": luhn, "mod11": mod11, "verhoeff": verhoeff}


def check_digit(name: str) -> Check:
    """The check of this name, of ours or of a plug-in.  Raises InputError."""
    if name in CHECKS:
        return CHECKS[name]
    for entry in entry_points(group="secfc.check_digits", name=name):
        found: Check = entry.load()
        return found
    raise InputError(
        f"check={name!r} is none of {', '.join(CHECKS)}, and no installed package offers it as an entry "
        "point of the group secfc.check_digits. Correct it, or install that package at every site."
    )


def _digits(text: str) -> bool:
    return text.isascii() and text.isdigit()
