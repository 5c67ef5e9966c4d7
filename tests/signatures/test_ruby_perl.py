import pytest

from skillpouch.signatures import read_signature
from skillpouch.signatures.argv import ArgvArgument
from skillpouch.signatures.perl import read_perl
from skillpouch.signatures.ruby import read_ruby
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
STDIN = Interface(convention="stdin")


@pytest.mark.parametrize(
    "text",
    [
        "file = ARGV[0]",
        "puts ARGV.first || 'x'",
        'puts "Hello #{ARGV[0]}"',
        "puts <<~TEXT\n  Hello #{ARGV[0]}\nTEXT\n",
        "x = 6 / 2; y = ARGV.shift / 3",
    ],
)
def test_a_ruby_script_that_reads_argv_takes_words(text: str) -> None:
    assert read_ruby(text).interface == ARGS


@pytest.mark.parametrize(
    "text",
    [
        "puts 'ARGV'",
        'puts "ARGV"',
        "x = 1 # ARGV",
        "=begin\nARGV\n=end\n",
        "puts <<~'TEXT'\n  #{ARGV[0]}\nTEXT\n",
        "x = %w[ARGV B]",
        "x =~ /ARGV/",
        "puts 1\n__END__\nARGV\n",
    ],
)
def test_argv_in_ruby_text_is_no_code(text: str) -> None:
    assert "args" not in str(read_ruby(text).interface)


def test_options_of_option_parser_are_read() -> None:
    text = """#!/usr/bin/env ruby
# Greets people.
require 'optparse'
options = {}
OptionParser.new do |opts|
  opts.banner = "Usage: greet.rb [options]"
  opts.on("-n", "--name NAME", String, "Who to greet") { |v| options[:name] = v }
  opts.on('-c', '--count=N', Integer, 'How', 'often') do |v| options[:count] = v end
  opts.on("--[no-]loud", "Shout") { |v| options[:loud] = v }
  opts.on "-d", "--dry-run" do options[:dry] = true end
  opts.on("--mode MODE", %w[fast slow]) { |v| options[:mode] = v }
  opts.on("--style [STYLE]", [:a, :b]) { |v| options[:style] = v }
  opts.on("-x", "Only short") { }
  opts.on("-h", "--help", "Help") { puts opts; exit }
end.parse!
puts ARGV
"""

    assert read_ruby(text) == Signature(
        reader="optparse",
        interface=Interface(
            convention="argv",
            description="Greets people.",
            input_schema={
                "type": "object",
                "properties": {
                    "name": {"type": "string", "description": "Who to greet"},
                    "count": {"type": "integer", "description": "How often"},
                    "loud": {"type": "boolean", "description": "Shout"},
                    "dry_run": {"type": "boolean"},
                    "mode": {"type": "string", "enum": ["fast", "slow"]},
                    "style": {"type": "string", "enum": ["a", "b"]},
                    "x": {"type": "boolean", "description": "Only short"},
                    "args": {"type": "array", "items": {"type": "string"}},
                },
                "additionalProperties": False,
            },
            plan=(
                ArgvArgument(name="name", flag="--name", others=("-n",)),
                ArgvArgument(name="count", flag="--count", others=("-c",)),
                ArgvArgument(
                    name="loud", flag="--loud", action="boolean_optional", off_flag="--no-loud"
                ),
                ArgvArgument(name="dry_run", flag="--dry-run", action="store_true", others=("-d",)),
                ArgvArgument(name="mode", flag="--mode"),
                ArgvArgument(name="style", flag="--style", nargs="?"),
                ArgvArgument(name="x", flag="-x", action="store_true"),
                ArgvArgument(name="args", nargs="*", after_dashes=True),
            ),
        ),
        imports=frozenset({"optparse"}),
    )


@pytest.mark.parametrize(
    "call",
    ["opts.on(*flags)", 'opts.on("--#{name} X")', "opts.on(FLAG, 'x')", "opts.banner = 'x'"],
)
def test_unclear_options_of_option_parser_become_words(call: str) -> None:
    signature = read_ruby(f"OptionParser.new do |opts|\n  {call}\nend.parse!(ARGV)\n")

    assert signature.interface == ARGS
    assert signature.uncertain == "the options given to OptionParser are not all literal"


def test_what_a_ruby_script_needs_is_known() -> None:
    text = """
require 'json'
require_relative 'lib/tools'
require_relative "../other"
key = ENV.fetch("API_KEY", nil) || ENV['OTHER']
ENV['SET'] = '1'
puts "#{ENV['IN_TEXT']}" # ENV['COMMENTED']
answer = STDIN.gets.chomp
"""
    signature = read_ruby(text)

    assert signature.variables == ("API_KEY", "IN_TEXT", "OTHER")
    assert signature.imports == frozenset({"json", "./lib/tools", "../other"})
    assert signature.reads_input
    assert signature.has_entry


@pytest.mark.parametrize(
    ("text", "has_entry"),
    [
        ("require 'x'\nmodule A\n  def b\n  end\nend\nVERSION = '1'\n", False),
        ("class A\nend\nif __FILE__ == $0\n  A.new\nend\n", True),
        ("puts 1\n", True),
        ("require 'x'; puts 1\n", True),
        ("def a; 1; end\n", False),
        ("def a; 1; end; a\n", True),
    ],
)
def test_a_ruby_library_has_no_entry(text: str, has_entry: bool) -> None:
    assert read_ruby(text).has_entry is has_entry


@pytest.mark.parametrize(
    ("text", "has_entry"),
    [
        ("package A; use strict;\nsub b { c(); }\n1;\n", False),
        ("use strict; print 1;\n", True),
        ("sub a { b(); } a();\n", True),
    ],
)
def test_a_perl_library_has_no_entry(text: str, has_entry: bool) -> None:
    assert read_perl(text).has_entry is has_entry


def test_lines_of_data_are_no_answers() -> None:
    assert not read_ruby("while line = gets\n  puts line\nend\n").reads_input
    assert not read_perl("while (my $line = <STDIN>) { print $line }\n").reads_input
    assert read_perl("print 'Name? '; my $name = <STDIN>;\n").reads_input


def test_tests_are_recognised() -> None:
    assert read_ruby("require 'minitest/autorun'\n").is_test
    assert read_perl("use strict;\nuse Test::More;\n").is_test


@pytest.mark.parametrize(
    "text",
    [
        "my $file = $ARGV[0];",
        "for (@ARGV) { print }",
        "my $file = shift;",
        "my $file = shift || 'x';",
        "my $file = shift @ARGV;",
        "if (1) { my $file = shift }",
        'print "Hello $ARGV[0]";',
        "use Getopt::Long; GetOptions('name=s' => \\$name);",
    ],
)
def test_a_perl_script_that_reads_its_words_takes_them(text: str) -> None:
    assert read_perl(text).interface == ARGS


@pytest.mark.parametrize(
    "text",
    [
        "sub f { my $x = shift; if ($x) { shift } return $x }",
        "my $x = shift @list; shift(@$other);",
        "print '@ARGV';",
        "my $x = 1; # @ARGV",
        "=pod\n\n@ARGV\n\n=cut\nprint 1;",
        "print 1;\n__END__\n@ARGV\n",
        "print <<'TEXT';\n@ARGV\nTEXT\n",
        "my @x = qw(shift ARGV);",
        "my $n = $#list; my $q = 'shift';",
    ],
)
def test_a_perl_script_that_does_not_gets_json(text: str) -> None:
    assert read_perl(text).interface == STDIN


def test_what_a_perl_script_needs_is_known() -> None:
    text = """
use strict; use JSON::PP;
require "./lib.pl";
my $key = $ENV{API_KEY} // $ENV{'OTHER'};
$ENV{SET} = 1;
print "$ENV{IN_TEXT}"; # $ENV{COMMENTED}
"""
    signature = read_perl(text)

    assert signature.variables == ("API_KEY", "IN_TEXT", "OTHER")
    assert signature.imports == frozenset({"strict", "JSON::PP", "./lib.pl"})


def test_both_are_read_by_language() -> None:
    assert read_signature("# Sort.\nputs 1\n", "ruby").interface.description == "Sort."
    assert read_signature("# Sort.\nprint 1;\n", "perl").interface.description == "Sort."
