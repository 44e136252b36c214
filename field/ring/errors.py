"""The class of errors that tell callers of a value of theirs.

An experiment or a command tells its user of these alone as bad input; any other error is a fault of the
program, or of a party, and must not read as advice.
"""

import shlex
import shutil
import sys
from importlib.util import find_spec
from pathlib import Path

ROOT = Path(__file__).parents[2]


class InvalidValue(ValueError):  # noqa: N818 - named for what it says
    """A parameter or data of the caller that cannot be used.  The message gives value, rule and remedy."""


def install_command(*packages: str) -> str:
    """Line for a shell that installs packages for the Python that runs, which remedies name.

    packages: by their names; an extra of this project in brackets alone.  A checkout that runs is installed
    anew where it lies; of a wheel, pip and uv take what its extra needs from what is installed.
    """
    python, pip = Path(sys.executable), shutil.which("pip")
    if find_spec("pip") is None:  # as uv makes environments
        words = ["uv", "pip", "install", "--python", str(python)]
    elif pip is not None and Path(pip).parent == python.parent:
        words = ["pip", "install"]
    else:  # an environment that is not activated: a pip alone would be another's
        words = [str(python), "-m", "pip", "install"]
    checkout = (ROOT / "pyproject.toml").exists()
    for package in packages:
        if not package.startswith("["):
            words.append(package)
        else:
            words += ["-e", f"{ROOT}{package}"] if checkout else [f"secfc-clustering{package}"]
    return shlex.join(words)
