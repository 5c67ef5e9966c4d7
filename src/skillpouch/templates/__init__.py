"""Texts with `${name}` and `${env:NAME}` in them, filled so that no value changes their structure.

There is one class for each context. A template is parsed once, and filled any number of times:

    ArgvTemplate.parse("--input ${file}").fill({"file": "a b"}, {})   # ["--input", "a b"]
    UrlTemplate.parse("https://x.org/${id}").fill({"id": "../a"}, {})  # "https://x.org/..%2Fa"
    HeaderTemplate.parse("Bearer ${env:KEY}").fill({}, {"KEY": "k"})   # "Bearer k", None: leave out
    JsonTemplate.parse('{"n": ${n}}').fill({"n": 3}, {})               # {"n": 3}
    FormTemplate.parse("a=${a}&b=${b}").fill({"a": "x&y"}, {})         # "a=x%26y"
    TextTemplate.parse("Hello ${who}").fill({"who": "Ada"}, {})        # "Hello Ada"

`parse` raises TemplateError, which has the `position`; `fill(arguments, secrets)` raises FillError
for a value that is not allowed in its place. `names` are the arguments and `variables` the
environment variables that a template mentions. `$$` is a literal `$`. Values are not expanded
again: a `${…}` inside one is text.

If an argument is missing or null, its whole place is left out: a word, a pair of a query, a
header, a member of an object. It is an error if another value would be lost with it. A variable
that is not among `secrets` is always an error.
"""

from skillpouch.templates.argv import ArgvTemplate
from skillpouch.templates.form import FormTemplate, HeaderTemplate, TextTemplate
from skillpouch.templates.json_body import JsonTemplate
from skillpouch.templates.placeholders import FillError, TemplateError, VariableInWordsError
from skillpouch.templates.url import UrlTemplate

__all__ = [
    "ArgvTemplate",
    "FillError",
    "FormTemplate",
    "HeaderTemplate",
    "JsonTemplate",
    "TemplateError",
    "TextTemplate",
    "UrlTemplate",
    "VariableInWordsError",
]
