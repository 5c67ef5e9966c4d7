import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from skillpouch.signatures import read_signature
from skillpouch.signatures.argv import ArgvArgument, ArgvPlan
from skillpouch.signatures.shebang import Language, read_shebang
from skillpouch.signatures.signature import Signature
from skillpouch.signatures.usage_lines import usage_fits, usage_lines

pytestmark = pytest.mark.slow

LANGUAGES: tuple[Language, ...] = ("shell", "javascript", "typescript", "ruby", "perl")
MEGABYTE = 1_000_000
PIECES = r"""
export default|module.exports =|exports.default =|async function handler(args)|(args) =>|args =>
({ text, n = 3 }) =>|const { a, b = "x", ...c } = args;|args.text ?? "x"|: { text: string; n?: T }
interface T { t: T }|type T = T|T[] & {|import x from './y'|require('z')|process.argv|await
describe(|process.env.KEY|process.env["KEY"]|parseArgs({ options: { a: { type: "string" } } })
program.option('-a, --all <x>')|.argument('[x...]')|/** @param {{a: string}} args */
from 'commander'|/** @typedef {T} T|* @param {x} [a.b=1]
`a ${|}`|/re[/]x/|//|/*|*/|<T>|=>|...|?.|"str|'str|"a\"b"
$1|"$1"|${2:-x}|${3:?|"$@"|$#|A="$1"|B=${2:-out}|shift|getopts|case "$1" in|a)|;;|esac|if|then|fi
f() {|function g {|main "$@"|<<EOF|EOF|<<'EOF'|<<-X|$((1 << 2))|$(|`|source ./x.sh|read -p
: '|# comment|#!/bin/bash|# Usage: x|# ====|# Copyright 2024|# /// script|# ///|set -e|local X=$1
ARGV|ENV['K']|ENV.fetch("K")|OptionParser|opts.on("-n", "--name NAME", Integer, "d")|%w[|=begin|=end
require 'x'|def x|end|__END__|gets|"#{ARGV}"|<<~T|T|@ARGV|$ENV{K}|shift @ARGV|sub f {|q{|qw(
=head1 NAME|x - y|=cut|use strict;|$#|$'|m/x/|s/a/b/|1;|{|}|(|)|[|]|;|,|=|\\|"|'|$|#|@|é
"""
FRAGMENTS = PIECES.strip().replace("\n", "|").split("|")
scripts = st.lists(st.one_of(st.sampled_from(FRAGMENTS), st.text(max_size=4)), max_size=60).flatmap(
    lambda parts: st.sampled_from(["", " ", "\n"]).map(lambda join: join.join(parts))
)
texts = st.one_of(st.text(), scripts)


def check(signature: Signature) -> None:
    interface = signature.interface
    schema = json.loads(json.dumps(interface.input_schema, allow_nan=False))
    assert interface.input_schema == schema
    assert len(interface.description) <= 256
    assert list(signature.variables) == sorted(set(signature.variables))
    assert (interface.convention == "argv") is (interface.plan is not None)
    if schema is not None:
        assert set(schema.get("required", ())) <= set(schema["properties"])
    if interface.plan is not None:
        names = [part.name for part in interface.plan if isinstance(part, ArgvArgument)]
        assert names == list(schema["properties"])


@settings(deadline=None, max_examples=400)
@given(text=texts, language=st.sampled_from(LANGUAGES), filename=st.text(max_size=10))
def test_any_text_gives_a_signature(text: str, language: Language, filename: str) -> None:
    check(read_signature(text, language, filename=filename))


# Scanned again from every place in it, each of these would take minutes.
SHELL = [
    "$(",
    "$((",
    "${",
    "`${",
    "${a[",
    "<<A\n",
    "<<'A ",
    "a()",
    "a=(",
    "case a in ",
    "({",
    ": '\n",
]
JAVASCRIPT = [
    "`${",
    "/[",
    "=/\\/",
    "({",
    "a<b,",
    "const a:",
    "import ",
    "exports=",
    "async ",
    "x=>",
]
JAVASCRIPT += ["export default ", "/** @param {{", "type A=", "process.env.", "a as default "]
RUBY = ['"#{', "#{", "=/\\/", "%w[", "<<AB\n", "=begin\n", ".on('", "ENV['", "require '"]
PERL = ['"$a{', "$ENV{", "q{", "sub {", "shift ", "=head1 A\n", "A<", "<<AB\n", "use a;"]


@pytest.mark.timeout(100)
@pytest.mark.parametrize(
    ("language", "piece"),
    [
        *(("shell", piece) for piece in SHELL),
        *(("javascript", piece) for piece in JAVASCRIPT),
        *(("ruby", piece) for piece in RUBY),
        *(("perl", piece) for piece in PERL),
    ],
)
def test_no_text_is_read_again_and_again(language: Language, piece: str) -> None:
    check(read_signature((piece * 50_000)[:50_000], language))


@pytest.mark.timeout(100)
@pytest.mark.parametrize("language", ["shell", "javascript", "ruby", "perl"])
@pytest.mark.parametrize("piece", ["/*", '"', "'", "\\", "${", "# a\n", "\n", " ", "# a  "])
def test_a_megabyte_is_read_quickly(language: Language, piece: str) -> None:
    check(read_signature((piece * MEGABYTE)[:MEGABYTE], language))


@settings(deadline=None)
@given(text=st.one_of(st.text(), st.binary(), st.text().map(lambda rest: f"#!{rest}")))
def test_any_first_line_gives_words_or_none(text: str | bytes) -> None:
    words = read_shebang(text)

    assert all(word and not word.isspace() for word in words)


@settings(deadline=None)
@given(
    lines=st.lists(
        st.one_of(
            st.text(max_size=20),
            st.sampled_from(["```", "```bash", "~~~", "`x.py a`", "\\", "x.py --a 'b"]),
        )
    )
)
def test_any_body_gives_short_usage_lines(lines: list[str]) -> None:
    plan: ArgvPlan = (ArgvArgument(name="b", flag="--b"),)

    found = usage_lines("\n".join(lines), "scripts/x.py")

    assert len(found) <= 5
    assert all(len(line) <= 400 and "\n" not in line for line in found)
    assert all(isinstance(usage_fits(line, plan, "scripts/x.py"), str) for line in found)


@pytest.mark.timeout(100)
@pytest.mark.parametrize(
    "piece", ["`", "```", "a", "a/", "x.py ", "`x.py ", "a \\\n", "~~~\n", "$ "]
)
def test_no_body_is_read_again_and_again(piece: str) -> None:
    body = f"```\n{(piece * MEGABYTE)[:MEGABYTE]}"

    assert len(usage_lines(body, "scripts/x.py")) <= 5
