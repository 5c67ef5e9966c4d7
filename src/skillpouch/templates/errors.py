"""What is wrong with a template, or with a value that should fill it."""

from skillpouch.errors import SkillpouchError


class TemplateError(SkillpouchError):
    """A template that cannot be used; `position` counts characters from 0."""

    code = "template"

    def __init__(self, reason: str, position: int, *, hint: str = "") -> None:
        self.reason = reason
        self.position = position
        super().__init__(f"{reason}, at character {position + 1} of the template", hint=hint)


class VariableInWordsError(TemplateError):
    """A command line that would show a variable to every user of the machine."""

    code = "template_variable"

    def __init__(self, variable: str, position: int) -> None:
        self.variable = variable
        super().__init__(
            f"${{env:{variable}}} would show its value to everybody who lists processes",
            max(position, 0),
            hint=f"name {variable} in the skill's `requires.env` and let the program read it from "
            "its environment; for a program that does not, write an inline script that hands it "
            "over on standard input or by a file descriptor",
        )


class FillError(SkillpouchError):
    """A value that cannot stand where a template has its place.

    `name` is the argument, or the environment variable when `is_variable`. The message never
    holds the value: it may be a secret.
    """

    code = "template_value"

    def __init__(
        self, name: str, reason: str, *, is_variable: bool = False, hint: str = ""
    ) -> None:
        self.name = name
        self.reason = reason
        self.is_variable = is_variable
        super().__init__(f"{name}: {reason}", hint=hint)
