"""Reads the interface of a script, such as its arguments and description, without running it."""

from collections.abc import Callable
from dataclasses import replace

from skillpouch.signatures.shebang import Language
from skillpouch.signatures.signature import Signature


def read_signature(
    text: str,
    language: Language,
    *,
    filename: str = "",
    module_text: Callable[[str], str] | None = None,
) -> Signature:
    """Read a script of any language; any text gives a signature, never an exception.

    `module_text` returns the text of a Python module of the same skill by the name that a script
    imports, "" if there is none: it may make or complete the parser of the script.
    """
    if "\r" in text:
        text = text.replace("\r\n", "\n").replace("\r", "\n")
    if language == "python":
        signature = _read_python(text, filename, module_text)
    else:
        signature = _READERS[language](text, filename)
    return _with_purpose(signature, text, language)


def _with_purpose(signature: Signature, text: str, language: Language) -> Signature:
    """Add what only scripts without arguments need: whether they read input, or run at all."""
    if signature.has_entry and not signature.is_untyped:
        return signature
    from skillpouch.signatures.purpose import reads_lines, reads_nothing, what_it_defines

    if not signature.has_entry:
        words, line = what_it_defines(text, language)
        signature = replace(signature, defines=words, defines_line=line)
    asks = signature.reads_input or signature.uncertain or signature.commands
    if signature.is_untyped and not asks and reads_nothing(text, language, signature.imports):
        return replace(signature, takes_nothing=True)
    if signature.is_untyped and not asks and reads_lines(text, language):
        return replace(signature, reads_lines=True)
    return signature


# Each reader is imported when first needed: a folder of shell scripts must not pay for the others.
def _read_python(text: str, filename: str, module_text: Callable[[str], str] | None) -> Signature:
    from skillpouch.signatures.python.reading import read_python

    return read_python(text, filename=filename, module_text=module_text)


def _read_shell(text: str, filename: str) -> Signature:
    from skillpouch.signatures.shell.reading import read_shell

    return read_shell(text, filename=filename)


def _read_javascript(text: str, filename: str) -> Signature:
    from skillpouch.signatures.javascript.reading import read_javascript

    return read_javascript(text, filename=filename)


def _read_ruby(text: str, filename: str) -> Signature:
    from skillpouch.signatures.ruby import read_ruby

    return read_ruby(text, filename=filename)


def _read_perl(text: str, filename: str) -> Signature:
    from skillpouch.signatures.perl import read_perl

    return read_perl(text, filename=filename)


_READERS = {
    "shell": _read_shell,
    "javascript": _read_javascript,
    "typescript": _read_javascript,
    "ruby": _read_ruby,
    "perl": _read_perl,
}
