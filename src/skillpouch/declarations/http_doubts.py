"""What an http tool declares that will hardly do what its author meant."""

import re
from collections.abc import Iterator
from typing import Any

from skillpouch.declarations.declared import Report
from skillpouch.declarations.strict_yaml import YamlPath
from skillpouch.net.http.bodies import JsonBody
from skillpouch.net.http.headers import OURS
from skillpouch.net.http.plan import plan_of
from skillpouch.tools import Http

# A member that is called like this holds the file; an argument that is called like this, its path.
_FILE_MEMBERS = frozenset({"file", "files", "audio", "image", "video", "document", "attachment"})
_PATH_NAME = re.compile(
    r"(?:^|[_-])(?:file|path|filename|filepath)s?\Z|_file_path\Z", re.IGNORECASE
)


def report_doubts(http: Http, report: Report, at: YamlPath) -> None:
    """Add a warning for each."""
    for member, argument in _paths_as_text(http):
        message = (
            f"`{member}: ${{{argument}}}` sends the path as text, not the file; to send the file, "
            f"write `multipart: {{{member}: {{path: ${{{argument}}}}}, …}}` in place of the body"
        )
        report.add("http-path-as-text", "warning", message, at)
    if ignored := sorted(name for name in http.headers if name.lower() in OURS):
        message = f"the header {ignored[0]} is Skillpouch's own to set: it is left out"
        report.add("http-header-ignored", "warning", message, at)


def _paths_as_text(http: Http) -> Iterator[tuple[str, str]]:
    """Return the members of a JSON body that are one argument, both called like a file."""
    body = plan_of(http).body
    if not isinstance(body, JsonBody):
        return
    # A member that is one argument has exactly its value: here each has a value of its own.
    marks = {f"\0{name}": name for name in body.names}
    arguments = {name: mark for mark, name in marks.items()}
    filled: Any = body.template.fill(arguments, dict.fromkeys(body.template.variables, "-"))
    for member, value in filled.items() if isinstance(filled, dict) else ():
        name = marks.get(value, "") if isinstance(value, str) else ""
        if member.lower() in _FILE_MEMBERS and _PATH_NAME.search(name):
            yield member, name
