"""Programs that read their command line by hand: what is read is what they do with the words."""

import json
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema_rs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from skillpouch.signatures import read_signature
from skillpouch.signatures.argv import words
from skillpouch.signatures.signature import Interface

HERE = Path(__file__).parent


def programs(language: str) -> dict[str, dict[str, str]]:
    """Return the programs of one language, by family and name."""
    scope: dict[str, Any] = {}
    exec((HERE / f"{language}_programs.py").read_text(), scope)
    return {name: scope[name] for name in ("BY_POSITION", "BY_FLAGS", "DECLINED")}


LANGUAGES = ["python", "javascript"]
TYPED = [
    (language, family, name)
    for language in LANGUAGES
    for family in ("BY_POSITION", "BY_FLAGS")
    for name in programs(language)[family]
]
DECLINED = [(language, name) for language in LANGUAGES for name in programs(language)["DECLINED"]]


def interface_of(language: Any, text: str) -> Interface:
    signature = read_signature(text, language)
    assert signature.uncertain == ""
    return signature.interface


def calls(schema: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield calls: each argument alone, all, all but one, and each with odd values."""
    every = {name: value(name, one) for name, one in schema["properties"].items()}
    needed = {name: every[name] for name in schema.get("required", [])}
    yield every
    yield {}
    for name, usual in every.items():
        yield {**needed, name: usual}
        yield {key: one for key, one in every.items() if key != name}
        for odd in ("", "-x", "--out", "--json", "a=b", "--name=x", "two words", "--"):
            if schema["properties"][name].get("type") == "string":
                yield {**needed, name: odd}
                yield {**every, name: odd}


def value(name: str, schema: dict[str, Any]) -> Any:
    if "enum" in schema:
        return schema["enum"][-1]
    kind = schema["type"]
    if kind == "array":
        return [f"{name}-1", f"{name}-2"]
    return {"string": f"the {name}", "integer": 7, "number": 2.5, "boolean": True}[kind]


def run_all(language: str, jobs: list[dict[str, Any]]) -> list[list[str | None]]:
    if language == "javascript" and shutil.which("node") is None:
        pytest.skip("there is no Node.js on this machine")
    command = {"python": [sys.executable, "-I"], "javascript": ["node"]}[language]
    runner = HERE / {"python": "run_programs.py", "javascript": "run_programs.js"}[language]
    done = subprocess.run(
        [*command, str(runner)], input=json.dumps(jobs), capture_output=True, text=True, check=True
    )
    results: list[list[str | None]] = json.loads(done.stdout)
    return results


@pytest.mark.parametrize("language", LANGUAGES)
def test_every_value_arrives_where_its_name_says_and_nowhere_else(language: str) -> None:
    found = programs(language)
    texts = {**found["BY_POSITION"], **found["BY_FLAGS"]}
    jobs, expected = [], []
    for text in texts.values():
        interface = interface_of(language, text)
        accepted = list(accepted_calls(interface))
        jobs.append({"text": text, "calls": [made for _, made in accepted]})
        expected.append([call for call, _ in accepted])

    results = run_all(language, jobs)

    wrong = []
    for name, made, wanted in zip(texts, results, expected, strict=True):
        unset = json.loads(made[-1] or "{}")  # only what is required
        for printed, call in zip(made, wanted, strict=True):
            shown = json.loads(printed) if printed else {}
            # Where an empty word is the same as none, it gives the default.
            differs = {
                key
                for key in call
                if shown.get(key) != (call[key] if call[key] != "" else unset.get(key))
                and shown.get(key) != call[key]
            }
            moved = {key for key in shown if key not in call and shown[key] != unset.get(key)}
            if differs or moved or printed is None:
                wrong.append((name, call, printed))
    assert wrong == []
    assert sum(map(len, expected)) > 250


def accepted_calls(interface: Interface) -> Iterator[tuple[dict[str, Any], list[str]]]:
    """Yield the calls that would be run, and their words; last the shortest one."""
    schema, plan = interface.input_schema, interface.plan
    assert schema is not None
    assert plan is not None
    shortest = {
        name: value(name, schema["properties"][name]) for name in schema.get("required", [])
    }
    for call in (*calls(schema), shortest):
        if not jsonschema_rs.is_valid(schema, call):
            continue
        try:
            made = words(plan, call)
        except ValueError:
            continue
        yield call, made


@pytest.mark.parametrize("language", LANGUAGES)
def test_what_is_required_is_really_refused_without(language: str) -> None:
    jobs = []
    for family in ("BY_POSITION", "BY_FLAGS"):
        for text in programs(language)[family].values():
            interface = interface_of(language, text)
            schema: Any = interface.input_schema
            needed = schema.get("required", [])
            every = {name: value(name, schema["properties"][name]) for name in needed}
            plan = tuple(
                part for part in interface.plan or () if getattr(part, "name", "") in every
            )
            for name in needed[-1:]:
                less = {key: one for key, one in every.items() if key != name}
                jobs.append({"text": text, "calls": [words(plan, less)]})

    results = run_all(language, jobs)

    assert len(jobs) >= 10
    assert results == [[None]] * len(jobs)


_DIRECTLY = """{
  const args = process.argv.slice(2);
  if (args.length < 1) { console.error("usage"); process.exit(1); }
  const source = args[0], target = args[1];
  console.log(source, target);
}"""


@pytest.mark.parametrize(
    ("test", "needed"),
    [
        ("if (require.main === module)", ["source"]),
        ("if (module === require.main || require.main === undefined)", ["source"]),
        ("if (require.main !== module) { module.exports = {}; } else", ["source"]),
        ("if (!module.parent)", ["source"]),
        ("if (import.meta.main)", ["source"]),
        ("if (import.meta.url === `file://${process.argv[1]}`)", ["source"]),
        ("const own = fileURLToPath(import.meta.url) === process.argv[1];\nif (own)", ["source"]),
        (
            "if (process.argv[1] && resolve(process.argv[1]) === fileURLToPath(import.meta.url))",
            ["source"],
        ),
        ("if (existsSync(new URL('data', import.meta.url)))", []),
        ("if (process.env.STRICT === 'yes')", []),
    ],
)
def test_what_javascript_refuses_when_run_directly_is_required(
    test: str, needed: list[str]
) -> None:
    schema: Any = interface_of("javascript", f"const one = 1;\n{test} {_DIRECTLY}").input_schema

    assert schema.get("required", []) == needed
    assert list(schema["properties"]) == ["source", "target"]


@pytest.mark.parametrize(("language", "name"), DECLINED)
def test_what_is_not_followed_stays_a_list_of_words_and_says_why(language: Any, name: str) -> None:
    signature = read_signature(programs(language)["DECLINED"][name], language)

    schema: Any = signature.interface.input_schema
    assert list(schema["properties"]) == ["args"]
    assert signature.uncertain


JAVASCRIPT = """args argv = [ ] ( ) { } ; , ? : ! => ... `${ }` /x/ '--x' '--x=' '=' 0 i++ ++i < ===
|| && if else for while switch case: const of return break; continue; throw .length .slice(2)
.shift() .push( .find(a=>!a.startsWith('-')) .startsWith('-') .includes( .indexOf( .split('=')"""
PYTHON = """args sys.argv = [ ] ( ) : , '--x' '--x=' 0 i += 1 < == or and not if else for while in
return break continue raise len( iter( next( .pop(0) .append( .startswith('-') .index("""
PIECES = {"javascript": JAVASCRIPT.split(), "python": PYTHON.split()}


@pytest.mark.parametrize("language", LANGUAGES)
@given(data=st.data())
def test_any_text_about_words_gives_a_signature(language: Any, data: st.DataObject) -> None:
    pieces = data.draw(st.lists(st.sampled_from([*PIECES[language], "\n", "\n    "]), max_size=40))
    start = {
        "python": "import sys\nargs = sys.argv[1:]\n",
        "javascript": "const args = process.argv.slice(2);\n",
    }[language]

    signature = read_signature(start + " ".join(pieces), language)

    assert signature.interface.plan is not None or signature.uncertain


@pytest.mark.parametrize(
    "piece", ["!", "(", "a.", "a?", "x=>", "`${", "args[", "if(x)", "f(function(){"]
)
def test_a_program_that_is_nested_too_deeply_stays_a_list_of_words(piece: str) -> None:
    signature = read_signature(f"process.argv;{piece * 20_000}", "javascript")

    assert signature.interface.plan is not None
