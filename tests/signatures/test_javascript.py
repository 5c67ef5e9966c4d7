from typing import Any

import pytest

from kitbag.argv import Argument
from kitbag.signatures.javascript import read_javascript
from kitbag.signatures.signature import Interface, Signature

ARGS = Interface(
    convention="argv",
    input_schema={
        "type": "object",
        "properties": {"args": {"type": "array", "items": {"type": "string"}}},
        "additionalProperties": False,
    },
    plan=(Argument(name="args", nargs="*"),),
)


def schema(text: str) -> Any:
    return read_javascript(text).interface.input_schema


def closed(properties: dict[str, Any], *required: str) -> dict[str, Any]:
    known = {"type": "object", "properties": properties, "additionalProperties": False}
    return {**known, "required": list(required)} if required else known


@pytest.mark.parametrize(
    "text",
    [
        "export default async function handler({ text }) {}",
        "export default function ({ text }) {}",
        "export default async ({ text }) => text",
        "export default ({ text }) => { return text }",
        "async function run({ text }) {}\nexport default run;",
        "const run = async ({ text }) => text\nexport default run",
        "const run = function ({ text }) {}; export { other, run as default };",
        "module.exports = async ({ text }) => text;",
        "module.exports = function handler({ text }) {}",
        "function run({ text }) {}\nmodule.exports = run;",
        "exports.default = ({ text }) => text;",
        "module.exports.default = ({ text }) => text;",
        "module.exports = exports = ({ text }) => text;",
        "exports.handler = async ({ text }) => text;",
        "const handler = ({ text }) => text; module.exports = { handler, other: 1 };",
        "module.exports = { async handler({ text }) { return text } };",
        "module.exports = { handler: ({ text }) => text };",
        "const a = b; const b = ({ text }) => text; export default a;",
        "const run: Handler = async ({ text }) => text; export default run;",
    ],
)
def test_every_way_to_export_a_handler_is_known(text: str) -> None:
    signature = read_javascript(text)

    assert signature.interface.convention == "handler"
    assert signature.interface.input_schema == closed({"text": {}})
    assert signature.has_entry


@pytest.mark.parametrize(
    "text",
    [
        'const text = "export default function handler(args) {}";',
        "const text = 'module.exports = (args) => args';",
        "const text = `\nexport default function handler(args) {}\n`;",
        "const text = `a ${ `b ${ 1 } export default (x) => x` } c`;",
        "// export default function handler(args) {}",
        "/*\nexport default function handler(args) {}\n*/",
        "const pattern = /[\"'`/]export default (a) => a/;",
        "if (a) /'/.test(b); const c = 'export default (a) => a';",
        "function inner() { module.exports = (args) => args }",
        "export default { fetch(request) { return request } };",
        "export default class Thing {}",
        "export default 'text';",
        "function Parser() {}\nmodule.exports = Parser;",
        "export const handler = (args) => args;",
    ],
)
def test_what_is_no_handler_is_none(text: str) -> None:
    assert read_javascript(text).interface.convention == "stdin"


def test_jsdoc_gives_types_descriptions_and_defaults() -> None:
    text = """
/**
 * Count the words of a text.
 * Slowly.
 *
 * @param {Object} args - The arguments
 * @param {string} args.text - The text
 *   to count
 * @param {string} [args.mode="fast"] - How to count
 * @param {number} [args.limit=10]
 * @param {('a'|'b')[]} args.kinds
 * @param {boolean=} args.loud
 * @param {?string} args.title
 * @param {Array<number>} args.numbers
 * @param {Record<string, string>} args.map
 * @param {*} args.anything
 * @param {string} args.__workDir
 * @returns {Promise<number>}
 */
export default async function handler(args) {
  return count(args);
}
"""

    assert read_javascript(text) == Signature(
        reader="jsdoc",
        interface=Interface(
            convention="handler",
            description="Count the words of a text. Slowly.",
            input_schema={
                "type": "object",
                "properties": {
                    "text": {"type": "string", "description": "The text to count"},
                    "mode": {"type": "string", "description": "How to count", "default": "fast"},
                    "limit": {"type": "number", "default": 10},
                    "kinds": {"type": "array", "items": {"type": "string", "enum": ["a", "b"]}},
                    "loud": {"type": "boolean"},
                    "title": {"type": "string"},
                    "numbers": {"type": "array", "items": {"type": "number"}},
                    "map": {"type": "object"},
                    "anything": {},
                },
                "required": ["text", "kinds", "title", "numbers", "map", "anything"],
            },
        ),
    )


@pytest.mark.parametrize(
    "text",
    [
        "/** @param {{text: string, n?: number}} args */\nexport default (args) => run(args);",
        (
            "/** @param {{text: string, n?: number}} args */\nmodule.exports = { handler: go };\n"
            "function go(args) { run(args) }"
        ),
        """
/**
 * @typedef {Object} Args
 * @property {string} text
 * @property {number} [n]
 */
/**
 * Run.
 * @param {Args} args
 */
export default function (args) { return run(args) }
""",
        """
/**
 * @param {Object} options
 * @param {string} options.text
 * @param {number} [options.n]
 */
const run = async (options) => go(options);
export default run;
""",
    ],
)
def test_jsdoc_is_read_in_all_its_forms(text: str) -> None:
    assert schema(text) == {
        "type": "object",
        "properties": {"text": {"type": "string"}, "n": {"type": "number"}},
        "required": ["text"],
    }


def test_jsdoc_of_single_properties_is_read_when_they_are_destructured() -> None:
    text = """
/**
 * Repeat a text.
 * @param {string} text - What to repeat
 * @param {number} times
 */
export default function ({ text, times = 2 }) {}
"""

    assert schema(text) == closed(
        {
            "text": {"type": "string", "description": "What to repeat"},
            "times": {"type": "number", "default": 2},
        },
        "text",
    )


@pytest.mark.parametrize(
    "text",
    [
        "export default async function handler(args: { text: string; n?: number }) {}",
        "export default (args: { text: string, n?: number }): Promise<{ a: 1 }> => run(args)",
        "interface A { text: string\n  readonly n?: number\n}\nexport default (a: A) => run(a)",
        "type A = { text: string } & { n?: number };\nexport default function (a: A): { n: 1 } { }",
        "type A = {\n  text: string\n  n: number | undefined\n}\nexport default (a: A) => run(a)",
        "export default function <T>(args: { text: string } & Partial<{ n: number }>) {}",
    ],
)
def test_typescript_types_are_read(text: str) -> None:
    assert schema(text) == closed({"text": {"type": "string"}, "n": {"type": "number"}}, "text")


def test_typescript_types_take_words_from_comments_and_defaults_from_code() -> None:
    text = """
interface Args {
  /** The text to repeat. */
  text: string;
  mode?: "fast" | "slow";
  tags: string[];
  nested: { deep: boolean };
  either: string | number;
  unknown: SomethingElse;
}
/**
 * Repeat.
 * @param {string} args.mode - How
 */
export default async function handler({ text, mode = "fast", tags, nested }: Args) {}
"""

    assert schema(text) == closed(
        {
            "text": {"type": "string", "description": "The text to repeat."},
            "mode": {
                "type": "string",
                "enum": ["fast", "slow"],
                "default": "fast",
                "description": "How",
            },
            "tags": {"type": "array", "items": {"type": "string"}},
            "nested": {
                "type": "object",
                "properties": {"deep": {"type": "boolean"}},
                "required": ["deep"],
            },
            "either": {"anyOf": [{"type": "string"}, {"type": "number"}]},
            "unknown": {},
        },
        "text",
        "tags",
        "nested",
        "either",
        "unknown",
    )


def test_destructuring_names_the_properties() -> None:
    text = """
// Count words
export default async function handler(args) {
  const { __workDir: workDir, text, mode = "fast", n = 3, on = true, list: [first], ...{} } = args;
}
"""
    plain = text.replace(", ...{}", "")

    assert schema(plain) == closed(
        {
            "text": {},
            "mode": {"type": "string", "default": "fast"},
            "n": {"type": "number", "default": 3},
            "on": {"type": "boolean", "default": True},
            "list": {"type": "array"},
        }
    )
    assert schema(text) is None


def test_properties_taken_one_by_one_are_known() -> None:
    text = """
export default function handler(args = {}) {
  const mode = args.mode ?? "fast";
  return args.text.length + (args?.n || 3) + other.args;
}
"""

    assert schema(text) == closed(
        {
            "mode": {"type": "string", "default": "fast"},
            "text": {},
            "n": {"type": "number", "default": 3},
        }
    )


@pytest.mark.parametrize(
    "body",
    [
        "const { text } = args; return other(args);",
        "return Object.keys(args);",
        "return args[name];",
        "return args.map(x => x);",
        "args.text = 1;",
        "const { text, ...rest } = args;",
        "return { ...args };",
    ],
)
def test_arguments_that_are_used_as_a_whole_stay_untyped(body: str) -> None:
    signature = read_javascript(f"// Run it.\n\nexport default (args) => {{ {body} }}")

    assert signature == Signature(
        reader="comments",
        interface=Interface(convention="handler", description="Run it."),
        uncertain="the default export does not say what it takes",
        uncertain_line=3,
    )


@pytest.mark.parametrize(
    "text",
    [
        "import handler from './handler.js';\nexport default handler;",
        "export default wrap(async (args) => args);",
        "const run = (args) => args;\nmodule.exports = lib.wrap(run);",
    ],
)
def test_a_handler_made_elsewhere_stays_untyped(text: str) -> None:
    assert read_javascript(text).interface == Interface(convention="handler")


def test_a_handler_without_parameters_takes_nothing() -> None:
    assert schema("export default async function handler() {}") == closed({})


@pytest.mark.parametrize(
    "text",
    [
        "const args = process.argv.slice(2);\nmain(args);",
        "import { argv } from 'node:process';\nmain(argv);",
        "const file = Bun.argv[2]; run(file);",
        "run(Deno.args);",
        "const argv = require('minimist')(process.argv.slice(2));",
        "import yargs from 'yargs'; yargs().argv;",
        "function run(file) {}\nmodule.exports = run;\nif (main) run(process.argv[2]);",
    ],
)
def test_a_program_that_reads_its_words_takes_any_number_of_them(text: str) -> None:
    assert read_javascript(text).interface == ARGS


def test_a_handler_with_a_command_line_beside_it_is_a_handler() -> None:
    text = "export default ({ text }) => text;\nif (import.meta.main) run(process.argv[2]);"

    assert read_javascript(text).interface.convention == "handler"


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
                    "color": {"type": "boolean", "description": "no colours", "default": True},
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
                Argument(name="file", after_dashes=True),
                Argument(name="out", nargs="?", after_dashes=True),
                Argument(name="debug", flag="--debug", action="store_true"),
                Argument(name="color", flag="--no-color", action="store_false"),
                Argument(name="to", flag="--to"),
                Argument(name="port", flag="--port"),
                Argument(name="dry_run", flag="--dry-run", action="store_true"),
                Argument(name="tag", flag="--tag", nargs="+"),
                Argument(name="style", flag="--style", nargs="?"),
            ),
        ),
        imports=frozenset({"commander"}),
    )


@pytest.mark.parametrize(
    "call",
    [
        ".option(FLAGS, 'x')",
        ".option(`--${name} <x>`)",
        ".command('build').option('--x')",
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
                Argument(name="dry_run", flag="--dry-run", action="store_true"),
                Argument(name="name", flag="--name"),
                Argument(name="tag", flag="--tag", action="append"),
                Argument(name="args", nargs="*", after_dashes=True),
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


def test_the_variables_that_are_read_are_known() -> None:
    text = """
const key = process.env.API_KEY || process.env["OTHER"] || process?.env?.THIRD;
const { A, B: renamed = "x" } = process.env;
log(`${process.env.IN_TEMPLATE}`);
process.env.SET = "1";
process.env[name];
Deno.env.get("DENO_KEY");
// process.env.COMMENTED and "process.env.QUOTED"
"""

    assert read_javascript(text).variables == (
        *("A", "API_KEY", "B", "DENO_KEY", "IN_TEMPLATE", "OTHER", "THIRD"),
    )


def test_imports_are_known() -> None:
    text = """
import fs from 'node:fs';
import { a } from "./lib/a.js";
import "side-effect";
import type { T } from '../types';
export * from './all.mjs';
const b = require("./b"), c = await import('pkg');
const text = "import x from 'no'"; x.require('no');
"""

    assert read_javascript(text).imports == frozenset(
        {"node:fs", "./lib/a.js", "side-effect", "../types", "./all.mjs", "./b", "pkg"}
    )


@pytest.mark.parametrize(
    ("text", "has_entry"),
    [
        ("import a from 'a'\nexport const b = 1\nexport function c() {}\n", False),
        (
            "'use strict';\nconst a = require('a');\nfunction b() { a() }\nmodule.exports = { b };",
            False,
        ),
        ("class A\n  extends B {}\ninterface C { d: string }\ntype E = 'a'\n  | 'b'\n", False),
        ("export default { name: 'config' };", False),
        ("Object.defineProperty(exports, '__esModule', { value: true });\nexports.a = 1;", False),
        ("function main() {}\nmain()", True),
        ("function main() {}\nmain();", True),
        ("(async () => { await run() })()", True),
        ("function a() {}\n(async () => {})();", True),
        ("const a = 1\nif (require.main === module) { a() }", True),
        ("for (const a of []) run(a);", True),
        ("const result = await run();", True),
        ("const args = process.argv.slice(2);", True),
        ("", False),
    ],
)
def test_a_module_that_only_declares_has_no_entry(text: str, has_entry: bool) -> None:
    assert read_javascript(text).has_entry is has_entry


@pytest.mark.parametrize(
    ("text", "is_test"),
    [
        ("import test from 'node:test';", True),
        ("import { expect } from 'vitest';", True),
        ("describe('it', () => {});", True),
        ("function a() { describe('it') }", False),
    ],
)
def test_tests_are_recognised(text: str, is_test: bool) -> None:
    assert read_javascript(text).is_test is is_test


@pytest.mark.parametrize(
    ("text", "asks"),
    [
        ("import readline from 'node:readline';\nrl.question('Name? ', answer);", True),
        ("import prompts from 'prompts';", True),
        ("import readline from 'readline';\nfor await (const line of rl) print(line);", False),
        ("process.stdin.on('data', read);", False),
    ],
)
def test_a_program_that_asks_a_person_says_so(text: str, asks: bool) -> None:
    assert read_javascript(text).reads_input is asks


def test_a_bundle_is_not_read_but_its_words_are_seen() -> None:
    text = f"// A bundle.\nmain(process.argv);\n{'x' * 200_000}"

    assert read_javascript(text) == Signature(
        reader="comments",
        interface=Interface(
            convention="argv",
            description="A bundle.",
            input_schema=ARGS.input_schema,
            plan=ARGS.plan,
        ),
        uncertain="the script is longer than 120,000 characters",
    )


def test_types_that_use_each_other_end() -> None:
    members = "; ".join(f"m{number}: T" for number in range(50))
    text = f"interface T {{ {members} }}\nexport default (args: T) => run(args)"

    assert set(schema(text)["properties"]) == {f"m{number}" for number in range(50)}


def test_types_that_multiply_are_given_up() -> None:
    types = "\n".join(
        f"type T{level} = {{ " + "; ".join(f"m{n}: T{level + 1}" for n in range(40)) + " }"
        for level in range(6)
    )
    text = f"{types}\nexport default (args: T0) => run(args)"

    signature = read_javascript(text)

    assert len(str(signature.interface.input_schema)) < 200_000
