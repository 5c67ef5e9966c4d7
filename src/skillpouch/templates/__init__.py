"""Texts with `${name}` and `${env:NAME}` in them, filled so that no value changes their structure.

There is one class for each context. A template is parsed once, and filled any number of times:

    ArgvTemplate.parse("--input ${file}").fill({"file": "a b"}, {})   # ["--input", "a b"]
    UrlTemplate.parse("https://x.org/${id}").fill({"id": "../a"}, {})  # "https://x.org/..%2Fa"
    HeaderTemplate.parse("Bearer ${env:KEY}").fill({}, {"KEY": "k"})   # "Bearer k", None: leave out
    JsonTemplate.parse('{"n": ${n}}').fill({"n": 3}, {})               # {"n": 3}
    FormTemplate.parse("a=${a}&b=${b}").fill({"a": "x&y"}, {})         # "a=x%26y"
    TextTemplate.parse("Hello ${who}").fill({"who": "Ada"}, {})        # "Hello Ada"

`parse` raises TemplateError, which has the `position`; `fill(arguments, secrets)` raises FillError
for a value that cannot stand there. `names` are the arguments and `variables` the environment
variables that a template mentions. `$$` is a literal `$`. Values are never looked into again: a
`${…}` inside one is text.

An argument that is not given, or null, leaves its place out: a word, a pair of a query, a header,
a member of an object. Where another value would be lost with it, it is an error. A variable that
is not among `secrets` is always one.
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
