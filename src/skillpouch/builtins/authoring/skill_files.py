"""A tool that an agent asks for, as the files of a skill: SKILL.md, tools.json and its script."""

import json

from skillpouch.builtins.authoring.request import ToolRequest

MARK = ("defined-by", "define_tool")  # in `metadata`: tells these skills from people's own
_EXTENSIONS = {"python": ".py", "javascript": ".js"}

_SKILL_MD = """---
name: {skill}
description: {quoted}
metadata:
  {key}: {value}
---

# {title}

The tool `{name}` of this skill was made by an agent. {description}

Its declaration is in `tools.json`, its code in `{script}`.
"""


def skill_files(request: ToolRequest) -> dict[str, str]:
    """Return what a skill with this one tool consists of, by path."""
    script = f"scripts/{request.name}{_EXTENSIONS[request.language]}"
    entry = {
        "name": request.name,
        "description": request.description,
        "script": script,
        "parameters": request.parameters,
    }
    page = _SKILL_MD.format(
        skill=request.skill,
        quoted=_quoted(request.description),
        key=MARK[0],
        value=MARK[1],
        title=request.skill.replace("-", " ").capitalize(),
        name=request.name,
        description=request.description,
        script=script,
    )
    return {
        "SKILL.md": page,
        "tools.json": json.dumps([entry], indent=2, ensure_ascii=False) + "\n",
        script: request.source,
    }


def _quoted(text: str) -> str:
    """Return text as a YAML scalar; three hyphens in it must not look like the end of the head."""
    return json.dumps(text, ensure_ascii=False).replace("---", "\\x2d\\x2d\\x2d")
