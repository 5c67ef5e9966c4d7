from typing import Any

import pytest

from skillpouch.signatures.javascript.reading import read_javascript
from skillpouch.signatures.signature import Interface, Signature


def schema(text: str) -> Any:
    return read_javascript(text).interface.input_schema


def closed(properties: dict[str, Any], *required: str) -> dict[str, Any]:
    known = {"type": "object", "properties": properties, "additionalProperties": False}
    return {**known, "required": list(required)} if required else known


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
