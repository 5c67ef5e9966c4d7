from typing import Any

import pytest

from skillpouch.signatures.argv import ArgvArgument
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


@pytest.mark.parametrize(
    "text",
    [
        "export default async function handler({ text }) {}",
        "export default function ({ text }) {}",
        "export default async ({ text }) => text",
        "export default ({ text }) => { return text }",
        "async function run({ text }) {}\nexport default run;",
        "const run = async ({ text }) => text\nexport default run",
        "const run = function ({ text }) {}; export { run as other, run as default };",
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
        "const b = ({ text }) => text; const a = b; export default a;",
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
    ],
)
def test_what_is_no_handler_is_none(text: str) -> None:
    assert read_javascript(text).interface.convention == "stdin"


@pytest.mark.parametrize(
    "text",
    [
        "const args = process.argv.slice(2);\nmain(args);",
        "import { argv } from 'node:process';\nmain(argv);",
        "run(Bun.argv);",
        "run(Deno.args);",
        "const argv = require('minimist')(process.argv.slice(2));",
        "import yargs from 'yargs'; yargs().argv;",
    ],
)
def test_a_program_that_reads_its_words_takes_any_number_of_them(text: str) -> None:
    assert read_javascript(text).interface == ARGS


@pytest.mark.parametrize(
    "text",
    [
        "const file = Bun.argv[2]; run(file);",
        "const [file] = Deno.args; run(file);",
        "function run(file) {}\nmodule.exports = run;\nif (main) run(process.argv[2]);",
        "import { argv as words } from 'process';\nrun({ file: words[2] });",
        "const { argv } = process;\nconst file: string = argv[2]!;\nrun(file as string);",
    ],
)
def test_a_word_that_is_read_by_number_is_an_argument(text: str) -> None:
    schema = read_javascript(text).interface.input_schema

    assert schema == {
        "type": "object",
        "properties": {"file": {"type": "string"}},
        "additionalProperties": False,
    }


def test_a_handler_with_a_command_line_beside_it_is_a_handler() -> None:
    text = "export default ({ text }) => text;\nif (import.meta.main) run(process.argv[2]);"

    assert read_javascript(text).interface.convention == "handler"


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
