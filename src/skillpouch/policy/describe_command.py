"""What exactly a tool runs, in one line for whoever has to say yes."""

import os
import shlex
from typing import assert_never

from skillpouch.tools import (
    Binary,
    BuiltIn,
    Function,
    Hosted,
    Http,
    InlineScript,
    Script,
    Stub,
    Tool,
)


def what_runs(tool: Tool) -> str:  # noqa: C901, PLR0911 - one for each kind
    """Return a command line, a request, or the name of a function."""
    match tool.runs:
        case Script(file=file, language=language):
            inside = os.path.relpath(file, tool.home) if tool.home else file
            return f"{language} {shlex.quote(inside)} of {tool.place}"
        case InlineScript(interpreter=interpreter, interpreter_args=words, text=text):
            return f"{shlex.join((interpreter, *words))} with this text:\n{text}"
        case Binary(path=path, url=url, args_template=template):
            where = url if url is None or isinstance(url, str) else " or ".join(url.values())
            return " ".join(filter(None, (path or where, template)))
        case Http(method=method, url=url):
            return f"{method} {url}"
        case Stub(skill=skill):
            return f"nothing: it says to load {skill}"
        case Function(call=call):
            return f"the function {call.__module__}.{getattr(call, '__qualname__', call)}"
        case Hosted(what=what):
            return what
        case BuiltIn(name=name):
            return f"Skillpouch's own {name}, in the workspace"
        case _:
            assert_never(tool.runs)
