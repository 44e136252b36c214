"""What docstrings look like on the site: fields as a list, examples as code, brackets as text."""

import re
import textwrap

from griffe import Extension

# From a line that begins with >>> to the next empty line.
EXAMPLE = re.compile(r"(?:^|\n\n)(>>> .*?)(?=\n\s*\n|\Z)", re.DOTALL)


def dressed(text, names):
    parts, end = [], 0
    for found in EXAMPLE.finditer(text):
        example = f"\n\n```pycon\n{textwrap.dedent(found[1])}\n```\n"
        parts += [plain(text[end : found.start()], names), example]
        end = found.end()
    return "".join([*parts, plain(text[end:], names)])


def plain(text, names):
    text = re.sub(r"\[(\"?\w+\"?)\](?=\[)", r"\\[\1\\]", text)
    if not names:
        return text
    one = "|".join(map(re.escape, sorted(names, key=len, reverse=True)))
    field = re.compile(
        rf"(?:(?<=[.;]) +|(?<=[.;])\n|(?<=\n\n)|(?<=\n))((?:{one})(?:(?:, | and )(?:{one}))*): "
    )
    paragraphs = (field.sub(r"\n- **\1**: ", "\n\n" + part) for part in text.split("\n\n"))
    return "".join(part.replace("\n- **", "\n\n- **", 1) for part in paragraphs).strip()


class Dressed(Extension):
    def on_function(self, *, func, **_):
        self.dress(func, {parameter.name for parameter in func.parameters})

    def on_class_members(self, *, cls, **_):
        self.dress(cls, {name for name, member in cls.members.items() if member.is_attribute})

    def dress(self, thing, names):
        if thing.docstring:
            thing.docstring.value = dressed(thing.docstring.value, names)
