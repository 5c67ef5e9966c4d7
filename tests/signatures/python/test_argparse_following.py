"""Where a parser goes in a script, the reader goes too."""

from textwrap import dedent

import pytest

from skillpouch.signatures.python.reading import read_python


def names(text: str) -> list[str]:
    """Return the properties of the script, in order; it must have been read with certainty."""
    signature = read_python(dedent(text))
    assert (signature.uncertain, signature.uncertain_line) == ("", None)
    assert signature.interface.input_schema is not None
    return list(signature.interface.input_schema["properties"])


@pytest.mark.parametrize(
    ("imports", "made"),
    [
        ("import argparse", "argparse.ArgumentParser()"),
        ("import argparse as ap", "ap.ArgumentParser()"),
        ("from argparse import ArgumentParser", "ArgumentParser()"),
        ("from argparse import ArgumentParser as Parser", "Parser()"),
    ],
)
def test_argparse_may_have_another_name(imports: str, made: str) -> None:
    assert names(f"{imports}\np = {made}\np.add_argument('x')\np.parse_args()") == ["x"]


def test_a_parser_built_by_a_function_is_found() -> None:
    text = """
        import argparse
        def build_parser():
            parser = argparse.ArgumentParser(description="Do it")
            parser.add_argument("path")
            add_common(parser)
            return parser
        def add_common(p, *, loud=False):
            p.add_argument("--quiet", action="store_true")
            if loud:
                p.add_argument("--loud")
        def main(argv=None):
            args = build_parser().parse_args(argv)
        if __name__ == "__main__":
            main()
    """

    assert names(text) == ["path", "quiet"]


def test_a_function_that_nothing_calls_is_still_the_entry() -> None:
    text = """
        import argparse
        def main():
            parser = argparse.ArgumentParser()
            parser.add_argument("--x")
            parser.parse_args()
    """

    assert names(text) == ["x"]


def test_groups_chains_aliases_and_branches_are_followed() -> None:
    text = """
        import argparse, sys
        parser = argparse.ArgumentParser()
        group = parser.add_argument_group("input")
        group.add_argument("--a")
        parser.add_argument_group("output").add_argument("--b")
        add = parser.add_argument
        add("--c")
        other = parser
        other.add_argument("--d")
        if sys.platform == "linux":
            parser.add_argument("--e")
        else:
            parser.add_argument("--f")
        try:
            parser.add_argument("--g")
        except ValueError:
            parser.add_argument("--h")
        with open("x"):
            parser.add_argument("--i")
        parser.parse_args()
    """

    assert names(text) == list("abcdefghi")


def test_loops_over_literals_are_unrolled() -> None:
    text = """
        import argparse
        parser = argparse.ArgumentParser()
        for name in ("one", "two"):
            flag = "--" + name
            parser.add_argument(flag, help=f"The {name}")
        for name, kind in {"three": int, "four": str}.items():
            if name == "four":
                continue
            parser.add_argument("--" + name, type=kind)
        [parser.add_argument(name) for name in ["five"]]
        parser.parse_args()
    """

    assert names(text) == ["one", "two", "three", "five"]


def test_parents_give_their_arguments_first() -> None:
    text = """
        import argparse
        parser = argparse.ArgumentParser(parents=[base := argparse.ArgumentParser(add_help=False)])
        base.add_argument("--late")
        common = argparse.ArgumentParser(add_help=False)
        common.add_argument("--verbose")
        parser = argparse.ArgumentParser(parents=[common])
        parser.add_argument("path")
        parser.parse_args()
    """

    assert names(text) == ["verbose", "path"]


def test_a_parser_kept_in_an_object_is_followed_through_its_methods() -> None:
    text = """
        import argparse
        class App:
            def __init__(self):
                self.parser = argparse.ArgumentParser()
                self.add_arguments()
            def add_arguments(self):
                self.parser.add_argument("--x")
            def run(self):
                return self.parser.parse_args()
        if __name__ == "__main__":
            App().run()
    """

    assert names(text) == ["x"]


def test_a_subclass_of_the_parser_may_add_its_own_arguments() -> None:
    text = """
        import argparse
        class Parser(argparse.ArgumentParser):
            def __init__(self, **settings):
                super().__init__(description="Mine", **settings)
                self.add_argument("--x")
            def error(self, message):
                self.exit(3, message)
        parser = Parser()
        parser.add_argument("--y")
        parser.parse_args()
    """

    assert names(text) == ["x", "y"]


def test_a_decorator_that_adds_sub_commands_is_followed() -> None:
    text = '''
        import argparse
        cli = argparse.ArgumentParser()
        commands = cli.add_subparsers(dest="command", required=True)
        def argument(*names, **settings):
            return list(names), settings
        def command(arguments=(), parent=commands):
            def decorate(function):
                parser = parent.add_parser(function.__name__, description=function.__doc__)
                for one in arguments:
                    parser.add_argument(*one[0], **one[1])
                parser.set_defaults(function=function)
            return decorate
        @command([argument("name", help="Who")])
        def greet(args):
            """Say hello."""
        if __name__ == "__main__":
            args = cli.parse_args()
    '''

    signature = read_python(dedent(text))

    assert signature.commands["greet"].description == "Say hello."
    assert signature.commands["greet"].input_schema == {
        "type": "object",
        "properties": {"name": {"type": "string", "description": "Who"}},
        "additionalProperties": False,
        "required": ["name"],
    }


def test_the_value_of_a_name_is_known_when_it_is_set_once() -> None:
    text = """
        import argparse
        FORMATS = ("json", "csv")
        OPEN = ["a"]
        OPEN.append(input())
        parser = argparse.ArgumentParser()
        parser.add_argument("--format", choices=FORMATS)
        parser.add_argument("--open", choices=OPEN)
        parser.parse_args()
    """

    schema = read_python(dedent(text)).interface.input_schema

    assert schema is not None
    assert schema["properties"] == {
        "format": {"type": "string", "enum": ["json", "csv"]},
        "open": {"type": "string"},
    }


def test_two_parsers_that_read_one_command_line_in_turn_are_one_interface() -> None:
    text = """
        import argparse
        early = argparse.ArgumentParser(add_help=False)
        early.add_argument("--config")
        known, rest = early.parse_known_args()
        parser = argparse.ArgumentParser()
        parser.add_argument("path")
        parser.parse_args(rest)
    """

    assert names(text) == ["path", "config"]


def test_options_of_a_browser_are_no_arguments() -> None:
    text = """
        import argparse
        from selenium.webdriver.chrome.options import Options
        options = Options()
        options.add_argument("--headless")
        parser = argparse.ArgumentParser()
        parser.add_argument("url")
        parser.parse_args()
    """

    assert names(text) == ["url"]


def test_a_module_that_only_mentions_argparse_has_no_command_line() -> None:
    text = """
        import argparse
        def add_flags(parser: argparse.ArgumentParser):
            parser.add_argument("--x")
    """

    assert read_python(dedent(text)).reader == "comments"


DEMO = """
import argparse
def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("path")
    print(parser.parse_args().path)
def show():
    print("a demo")
if __name__ == "__main__":
    show()
"""


def test_a_parser_that_running_the_file_never_reaches_is_no_interface() -> None:
    signature = read_python(DEMO)

    assert (signature.reader, signature.interface.convention) == ("comments", "stdin")


@pytest.mark.parametrize(
    "how",
    [
        "show(); main()",
        "{'go': main}['go']()",
        "globals()['main']()",
        "getattr(__import__(__name__), 'main')()",
        "later()",
    ],
)
def test_a_parser_is_reached_in_any_way_that_names_it(how: str) -> None:
    text = DEMO.replace("    show()\n", f"    {how}\n")
    text = text.replace("def show", "def later():\n    main()\ndef show")

    assert read_python(text).reader == "argparse"


def test_a_file_that_runs_nothing_has_the_parser_of_its_main() -> None:
    text = DEMO.partition("if __name__")[0]

    assert read_python(text).reader == "argparse"
