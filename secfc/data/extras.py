"""What a small installation goes without: libraries that extras install, named before any work is done."""

from __future__ import annotations

from importlib.util import find_spec

from secfc.data.inputs import InputError

# Each extra and the modules that come with it.
EXTRAS = {
    "estimators": ("sklearn", "scipy"),
    "dp": ("dp_accounting", "scipy", "sklearn"),
    "attacks": ("scipy", "sklearn"),
    "oprf": ("rbcl",),
    "files": ("pyarrow",),
    "excel": ("openpyxl",),
    "plot": ("matplotlib",),
    "grid": ("joblib",),
    "dask": ("joblib", "distributed"),
    "ray": ("joblib", "ray"),
}
KNOWN_AS = {"sklearn": "scikit-learn", "dp_accounting": "dp-accounting"}


def installed(module: str) -> bool:
    """Whether a library is there, without loading it."""
    try:
        return find_spec(module) is not None
    except (ImportError, ValueError):  # a finder that refuses; a module that was blocked
        return False


def require(what: str, extra: str) -> None:
    """Raise InputError if a library of this extra is missing.  what: needs it, as the message begins."""
    for module in EXTRAS[extra]:
        if not installed(module):
            raise InputError(
                f"{what} needs {KNOWN_AS.get(module, module)}, which is not installed. Run "
                f"pip install 'secfc-clustering[{extra}]'."
            )
