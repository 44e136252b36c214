"""Draws the pictures of the gallery by running its pages: `python -m docs.draw`."""

import os
import re
from pathlib import Path

GALLERY = Path(__file__).parent / "gallery"


def main():
    import matplotlib

    matplotlib.use("Agg")
    matplotlib.rcParams.update({"svg.fonttype": "none", "svg.hashsalt": "secfc", "font.family": "sans-serif"})
    os.chdir(GALLERY)
    for page in sorted(GALLERY.glob("*.md")):
        for block in re.findall(r"```python\n(.*?)```", page.read_text(), re.DOTALL):
            exec(compile(block, page.name, "exec"), {})
            print(page.stem)


if __name__ == "__main__":
    main()
