import pytest
from hypothesis import given
from hypothesis import strategies as st
from packaging.requirements import Requirement as Judge
from packaging.specifiers import SpecifierSet

from skillpouch.declarations.packages.requirements import (
    NotARequirementError,
    NotASpecifierError,
    parse_requirement,
    satisfies,
)


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("pandas", "pandas"),
        ("  Pandas  ", "pandas"),
        ("Ruamel.YAML", "ruamel-yaml"),
        ("pandas>=2,<3", "pandas<3,>=2"),
        ("pandas (>= 2, < 3)", "pandas<3,>=2"),
        ("pandas ~= 2.1", "pandas~=2.1"),
        ("pandas==2.*", "pandas==2.*"),
        ("torch==2.1+cpu", "torch==2.1+cpu"),
        ("requests [security, SOCKS] >=2", "requests[security,socks]>=2"),
        ("tomli; python_version < '3.11'", 'tomli; python_version < "3.11"'),
        (
            "x;(os_name=='nt' or sys_platform == \"darwin\") and python_version not in '3.9'",
            'x; ( os_name == "nt" or sys_platform == "darwin" ) and python_version not in "3.9"',
        ),
    ],
)
def test_a_package_by_name_is_understood(text: str, meant: str) -> None:
    parsed = str(parse_requirement(text))

    assert parsed == meant
    assert Judge(parsed).specifier == Judge(text.strip()).specifier


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "is not a requirement"),
        ("pandas pip", "is not a requirement"),
        ("pandas>=", "is not a requirement"),
        ("-e .", "is not a requirement"),
        ("./local", "local path"),
        ("/abs/local", "local path"),
        ("~/x", "local path"),
        ("..\\x", "local path"),
        ("pandas-2.0-py3-none-any.whl", "local path"),
        ("thing.tar.gz", "local path"),
        ("git+https://example.org/x", "address"),
        ("https://example.org/x.whl", "address"),
        ("file:x", "address"),
        ("x @ https://example.org/x.whl", "address"),
        ("x@ file:///x", "address"),
        ("x[a;b]", "is not a requirement|extras"),
        ("x; python_version < $HOME", "condition"),
        ("x; os_name == 'a --index-url=http://b'", "condition"),
        ("x; os_name == '${HOME}'", "condition"),
        ("x; import os", "condition"),
        ("x" * 2000, "characters"),
    ],
)
def test_anything_else_is_refused_and_says_why(text: str, why: str) -> None:
    with pytest.raises(NotARequirementError, match=why):
        parse_requirement(text)


PIECES = st.sampled_from(
    (
        *("pandas", " ", ">=", "2", ",", "[", "]", "a", ";", "python_version", "'3'", '"x"', "-"),
        *("--", "@", "://", "(", ")", "and", "#", "\n", "${X}", "\\", "=", "\x00", "é", "==", ".*"),
    )
)


@given(st.lists(PIECES, max_size=14).map("".join) | st.text(max_size=60))
def test_no_text_becomes_a_line_that_an_installer_reads_as_more(text: str) -> None:
    try:
        parsed = parse_requirement(text)
    except NotARequirementError:
        return

    assert parse_requirement(str(parsed)) == parsed
    assert "\n" not in parsed.line
    assert " -" not in parsed.line
    assert "$" not in parsed.line
    assert "#" not in parsed.line


CLAUSES = st.tuples(
    st.sampled_from(["==", "!=", "<", "<=", ">", ">=", "~="]),
    st.lists(st.integers(0, 14), min_size=2, max_size=3),
    st.sampled_from(["", ".*"]),
)


@given(st.tuples(st.just(3), st.integers(0, 14), st.integers(0, 14)), st.lists(CLAUSES, max_size=3))
def test_a_python_satisfies_what_the_reference_implementation_says(
    version: tuple[int, int, int], clauses: list[tuple[str, list[int], str]]
) -> None:
    kept = [
        f"{operator}{'.'.join(map(str, number))}{star if operator in ('==', '!=') else ''}"
        for operator, number, star in clauses
    ]
    specifiers = ",".join(kept)

    found = satisfies(version, specifiers)

    assert found == SpecifierSet(specifiers).contains(".".join(map(str, version)))


@pytest.mark.parametrize("text", ["3.11", ">=three", "<3,what", ">=3.*", "~=3", "=>3"])
def test_a_python_that_nobody_can_find_is_refused(text: str) -> None:
    with pytest.raises(NotASpecifierError):
        satisfies((3, 11, 7), text)
