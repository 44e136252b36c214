"""What docstrings look like on the site: examples are set as code, and brackets in text are no links."""

import re
import textwrap

from griffe import Extension

# From a line that begins with >>> to the next empty line.
EXAMPLE = re.compile(r"(?:^|\n\n)(>>> .*?)(?=\n\s*\n|\Z)", re.DOTALL)


def dressed(text):
    parts, end = [], 0
    for found in EXAMPLE.finditer(text):
        parts += [plain(text[end : found.start()]), f"\n\n```pycon\n{textwrap.dedent(found[1])}\n```\n"]
        end = found.end()
    return "".join([*parts, plain(text[end:])])


def plain(text):
    return re.sub(r"\[(\"?\w+\"?)\](?=\[)", r"\\[\1\\]", text)


class Dressed(Extension):
    def on_instance(self, *, obj, **_):
        if not obj.is_alias and obj.docstring:
            obj.docstring.value = dressed(obj.docstring.value)
