from typing import Any

import pytest

from skillpouch.signatures.argv import ArgvArgument, FixedWord
from skillpouch.signatures.javascript.reading import read_javascript
from skillpouch.signatures.signature import Interface, Signature

ARGS = Interface(
    convention="argv",
    input_schema={
        "type": "object",
        "properties": {"args": {"type": "array", "items": {"type": "string"}}},
        "additionalProperties": False,
    },
    plan=(ArgvArgument(name="args", nargs="*"),),
)


def closed(properties: dict[str, Any], *required: str) -> dict[str, Any]:
    known = {"type": "object", "properties": properties, "additionalProperties": False}
    return {**known, "required": list(required)} if required else known


def test_options_of_commander_are_read() -> None:
    text = """
import { program } from 'commander';
program.name('x').description('Convert things')
  .argument('<file>', 'input file')
  .argument('[out]', 'output file', 'out.txt')
  .option('-d, --debug', 'say more')
  .option('--no-color', 'no colours')
  .requiredOption('-t, --to <format>', 'format')
  .option('-p, --port <number>', 'port', parseInt, 80)
  .option('--dry-run')
  .option('--tag <tags...>', 'tags')
  .option('-s, --style [name]', 'style');
program.parse();
"""

    assert read_javascript(text) == Signature(
        reader="commander",
        interface=Interface(
            convention="argv",
            description="Convert things",
            input_schema=closed(
                {
                    "file": {"type": "string", "description": "input file"},
                    "out": {"type": "string", "default": "out.txt", "description": "output file"},
                    "debug": {"type": "boolean", "description": "say more"},
                    "color": {
                        "type": "boolean",
                        "description": "false passes --no-color: no colours",
                        "default": True,
                    },
                    "to": {"type": "string", "description": "format"},
                    "port": {"type": "integer", "default": 80, "description": "port"},
                    "dry_run": {"type": "boolean"},
                    "tag": {"type": "array", "items": {"type": "string"}, "description": "tags"},
                    "style": {"type": "string", "description": "style"},
                },
                "file",
                "to",
            ),
            plan=(
                ArgvArgument(name="file", after_dashes=True),
                ArgvArgument(name="out", nargs="?", after_dashes=True),
                ArgvArgument(name="debug", flag="--debug", action="store_true", others=("-d",)),
                ArgvArgument(name="color", flag="--no-color", action="store_false"),
                ArgvArgument(name="to", flag="--to", others=("-t",)),
                ArgvArgument(name="port", flag="--port", others=("-p",)),
                ArgvArgument(name="dry_run", flag="--dry-run", action="store_true"),
                ArgvArgument(name="tag", flag="--tag", nargs="+"),
                ArgvArgument(name="style", flag="--style", nargs="?", others=("-s",)),
            ),
        ),
        imports=frozenset({"commander"}),
    )


@pytest.mark.parametrize(
    "call",
    [
        ".option(FLAGS, 'x')",
        ".option(`--${name} <x>`)",
        ".addOption(new Option('--x').choices(['a']))",
        ".option('--x and more words')",
    ],
)
def test_unclear_options_of_commander_become_words(call: str) -> None:
    signature = read_javascript(f"const {{ program }} = require('commander');\nprogram{call};")

    assert signature.interface == ARGS
    assert signature.uncertain == "the options given to commander are not all literal"


def test_options_of_parse_args_are_read() -> None:
    text = """
import { parseArgs } from "node:util";
const options = {
  "dry-run": { type: "boolean", short: "n" },
  name: { type: "string", default: "x" },
  tag: { type: "string", multiple: true },
  help: { type: "boolean" },
};
const { values, positionals } = parseArgs({ options, allowPositionals: true });
"""

    assert read_javascript(text) == Signature(
        reader="parseArgs",
        interface=Interface(
            convention="argv",
            input_schema=closed(
                {
                    "dry_run": {"type": "boolean"},
                    "name": {"type": "string", "default": "x"},
                    "tag": {"type": "array", "items": {"type": "string"}},
                    "args": {"type": "array", "items": {"type": "string"}},
                }
            ),
            plan=(
                ArgvArgument(name="dry_run", flag="--dry-run", action="store_true", others=("-n",)),
                ArgvArgument(name="name", flag="--name"),
                ArgvArgument(name="tag", flag="--tag", action="append"),
                ArgvArgument(name="args", nargs="*", after_dashes=True),
            ),
        ),
        imports=frozenset({"node:util"}),
    )


@pytest.mark.parametrize(
    "call",
    [
        "parseArgs(config)",
        "parseArgs({ ...config })",
        "parseArgs({ options: { [name]: { type: 'string' } } })",
        "parseArgs({ options: { name: { type: kind } } })",
        "parseArgs({ args: process.argv.slice(3), options: { a: { type: 'string' } } })",
    ],
)
def test_unclear_options_of_parse_args_become_words(call: str) -> None:
    signature = read_javascript(f"const {{ parseArgs }} = require('util');\n{call};")

    assert signature.interface == ARGS
    assert signature.uncertain == "the options given to parseArgs are not all literal"
    assert signature.uncertain_line == 2


COMMANDS = """
const { Command, Option } = require("commander");
const program = new Command();
program.name("pouch").description("Keeps things").option("-v, --verbose", "say more");
program.command("add <item> [note]").description("Add an item").action(() => {});
const list = new Command("list");
list.addOption(new Option("--format <kind>", "shape").choices(["json", "text"]).default("text"));
program.addCommand(list);
const remote = program.command("remote");
remote.command("set").argument("<name>").requiredOption("--url <url>", "where");
program.parse();
"""


def test_each_command_of_commander_is_an_interface() -> None:
    signature = read_javascript(COMMANDS)

    verbose = ArgvArgument(name="verbose", flag="--verbose", action="store_true", others=("-v",))
    assert signature.reader == "commander"
    assert not signature.runs_alone
    assert {word: one.plan for word, one in signature.commands.items()} == {
        "add": (
            verbose,
            FixedWord("add"),
            ArgvArgument(name="item", after_dashes=True),
            ArgvArgument(name="note", nargs="?", after_dashes=True),
        ),
        "list": (verbose, FixedWord("list"), ArgvArgument(name="format", flag="--format")),
        "remote.set": (
            verbose,
            FixedWord("remote"),
            FixedWord("set"),
            ArgvArgument(name="name", after_dashes=True),
            ArgvArgument(name="url", flag="--url"),
        ),
    }
    schema: Any = signature.commands["list"].input_schema
    assert schema["properties"]["format"] == {
        "type": "string",
        "description": "shape",
        "enum": ["json", "text"],
        "default": "text",
    }
    assert signature.commands["remote.set"].input_schema == {
        "type": "object",
        "properties": {
            "verbose": {"type": "boolean", "description": "say more"},
            "name": {"type": "string"},
            "url": {"type": "string", "description": "where"},
        },
        "required": ["name", "url"],
        "additionalProperties": False,
    }


@pytest.mark.parametrize(
    "text",
    [
        "program.command(name).action(run);",
        "program.command('install', 'runs another file');",
        "addCommands(program); program.command('a');",
        "program.command('a').option(flags);",
    ],
)
def test_commands_that_are_not_all_there_stay_a_list_of_words(text: str) -> None:
    signature = read_javascript(f"import {{ program }} from 'commander';\n{text}\nprogram.parse();")

    assert signature.commands == {}
    assert signature.uncertain
