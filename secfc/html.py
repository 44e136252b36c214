"""A few facts as HTML, for notebooks: no style sheet, no script, no network; everything is escaped."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

FACTS = """<div><strong>{{ title }}</strong><br>{{ first }}<table>
{%- for name, value in values.items() -%}
<tr><th style='text-align:left'>{{ name }}</th><td style='text-align:left'>{{ value }}</td></tr>
{%- endfor %}</table>
{%- if said %}{{ then }}<ul>
{%- for sentence in said %}<li>{{ sentence }}</li>{% endfor %}</ul>
{%- endif %}</div>"""


def facts_table(title: str, first: str, values: Mapping[str, object], said: Sequence[str], then: str) -> str:
    """A title, a first sentence, a table of names and values, and sentences under a heading of their own."""
    from jinja2 import Environment

    template = Environment(autoescape=True).from_string(FACTS)
    return template.render(title=title, first=first, values=values, said=said, then=then)
