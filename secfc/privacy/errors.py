"""What privacy refuses."""

from __future__ import annotations

from secfc.data.inputs import InputError


class PrivacyError(InputError):
    """A step that would void the privacy claim.  The message gives the value, the rule and the remedy."""


class OverBudget(PrivacyError):  # noqa: N818 - named for what happened
    """A run that costs more than its budget: refused before any data is touched."""
