"""What a skill asks for: every place is found, nothing is run, nothing ordinary is a secret."""

import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from skillpouch import Skill, SkillManager
from skillpouch.needs import Need
from skillpouch.trust.grants import Grants
from skillpouch.trust.requested import asks_of, variables_in_body
from skillpouch.trust.review import review_skill
from tests.conftest import WriteSkill

without_deadline = settings(deadline=None)


def asked(home: Path) -> tuple[Need, ...]:
    manager = SkillManager(home.parent, cache=False)
    skill: Skill = manager.get_skill(home.name)
    return asks_of(skill, manager.get_skill_tools(skill.name))


def test_the_own_block_asks_for_everything(write_skill: WriteSkill, tmp_path: Path) -> None:
    front = (
        "name: demo\ndescription: d\nmetadata:\n  skillpouch:\n    secrets: [api_key, TOKEN]\n"
        "    hosts:\n      - API.example.com\n      - https://b.example.com:8443/v1\n      - a b\n"
        "    read: [~/data, ../shared, references, /etc/hosts]\n    write: /srv/out/\n"
        "    unconfined: true\n"
    )

    needs = asked(write_skill(front=front))

    home = Path.home()
    block = "(metadata.skillpouch)"
    assert needs == (
        Need(kind="secret", value="api_key", asked_in=f"SKILL.md:6 {block}"),
        Need(kind="secret", value="TOKEN", asked_in=f"SKILL.md:6 {block}"),
        Need(kind="host", value="api.example.com", asked_in=f"SKILL.md:8 {block}"),
        Need(kind="host", value="b.example.com:8443", asked_in=f"SKILL.md:9 {block}"),
        Need(kind="host", value="a b", asked_in=f"SKILL.md:10 {block}"),
        Need(kind="read", value=f"{home}/data", asked_in=f"SKILL.md:11 {block}"),
        Need(kind="read", value=f"{tmp_path}/skills/shared", asked_in=f"SKILL.md:11 {block}"),
        Need(kind="read", value="/etc/hosts", asked_in=f"SKILL.md:11 {block}"),
        Need(kind="write", value="/srv/out", asked_in=f"SKILL.md:12 {block}"),
        Need(kind="unconfined", asked_in=f"SKILL.md:13 {block}"),
    )


def test_declared_tools_ask_by_their_templates_and_addresses(write_skill: WriteSkill) -> None:
    tools = [
        {
            "name": "get",
            "description": "d",
            "backend": {
                "type": "http",
                "url": "https://api.example.com/${path}",
                "headers": {"Authorization": "Bearer ${env:API_KEY}"},
            },
        },
        {
            "name": "anywhere",
            "description": "d",
            "backend": {"type": "http", "url": "https://${host}/"},
        },
        {
            "name": "fetched",
            "description": "d",
            "backend": {"type": "binary", "url": "https://dl.example.com:8443/tool"},
        },
        {
            "name": "everywhere",
            "description": "d",
            "backend": {
                "type": "binary",
                "url": {"linux": "https://l.example.com/x", "darwin": "https://m.example.com/x"},
            },
        },
        {
            "name": "inline",
            "description": "d",
            "backend": {"type": "script", "interpreter": "bash", "script": "echo ${env:OTHER}"},
        },
    ]

    needs = asked(write_skill(files={"tools.json": json.dumps(tools)}))

    assert needs == (
        Need(kind="host", value="api.example.com", asked_in="tools.json (tool get)"),
        Need(kind="secret", value="API_KEY", asked_in="tools.json (tool get)"),
        Need(kind="host", value="dl.example.com:8443", asked_in="tools.json (tool fetched)"),
        Need(kind="host", value="l.example.com", asked_in="tools.json (tool everywhere)"),
        Need(kind="host", value="m.example.com", asked_in="tools.json (tool everywhere)"),
        Need(kind="secret", value="OTHER", asked_in="tools.json (tool inline)"),
    )


@pytest.mark.parametrize(
    ("front", "where"),
    [
        ("metadata: {vendor: {requires: {env: [API_KEY], bins: [jq]}}}", "requires.env"),
        ("metadata: {vendor: {primaryEnv: API_KEY}}", "primaryEnv"),
        ("requires: {env: API_KEY}", "requires.env"),
        ("env: [API_KEY]", "env"),
        ("env: 'API_KEY, OTHER_ONE'", "env"),
        ("env: {API_KEY: the key}", "env"),
        ("requiredEnv: [API_KEY]", "requiredEnv"),
        ("env: [{name: API_KEY, required: true}]", "env"),
        ("credentials: [{name: github, env: API_KEY}]", "credentials"),
        ("credentials: [github, API_KEY]", "credentials"),
    ],
)
def test_the_forms_that_people_use_ask_too(write_skill: WriteSkill, front: str, where: str) -> None:
    needs = asked(write_skill(front=f"name: demo\ndescription: d\n{front}\n"))

    assert needs[0] == Need(kind="secret", value="API_KEY", asked_in=f"SKILL.md:4 ({where})")
    assert {need.value for need in needs} <= {"API_KEY", "OTHER_ONE"}


def test_the_configuration_section_asks(write_skill: WriteSkill) -> None:
    body = (
        "# Demo\n\nUse `NOT_HERE`.\n\n## Configuration\n\nSet the variable:\n\n"
        "- `OPENAI_API_KEY` — your key\n- `TOKEN`: another\n\nBy `GET` and `JSON` with `ORG_ID`.\n"
        "\n### Setup\n\n```bash\nexport SETUP_KEY='x'\nAPI=$(curl x)\necho $NOPE_NOT\n# LATER=1\n"
        "```\n"
        "\n## Usage\n\n`NOT_HERE_EITHER`\n"
    )

    needs = asked(write_skill(body=body))

    lines = {need.value: need.asked_in for need in needs}
    assert lines == {
        "OPENAI_API_KEY": "SKILL.md:14 (## Configuration)",
        "TOKEN": "SKILL.md:15 (## Configuration)",
        "ORG_ID": "SKILL.md:17 (## Configuration)",
        "SETUP_KEY": "SKILL.md:22 (## Configuration)",
        "API": "SKILL.md:23 (## Configuration)",
    }
    assert all(need.declared for need in needs)


def test_what_only_scripts_read_is_not_declared(write_skill: WriteSkill) -> None:
    home = write_skill(
        files={
            "scripts/a.py": '"""A."""\nimport os\n\nprint(os.environ["API_KEY"])\n',
            "scripts/b.sh": "# B.\necho $B_KEY\n",
            "scripts/c.mjs": "// C.\nconsole.log(process.env.C_KEY)\n",
        }
    )

    assert asked(home) == (
        Need(kind="secret", value="API_KEY", declared=False, asked_in="scripts/a.py:4"),
        Need(kind="secret", value="B_KEY", declared=False, asked_in="scripts/b.sh:2"),
        Need(kind="secret", value="C_KEY", declared=False, asked_in="scripts/c.mjs:2"),
    )


def test_one_need_keeps_all_its_places_and_is_declared_when_one_of_them_declares_it(
    write_skill: WriteSkill,
) -> None:
    home = write_skill(
        front="name: demo\ndescription: d\nenv: [API_KEY]\n",
        body="## Configuration\n\n- `API_KEY`: the key\n",
        files={
            "scripts/a.py": '"""A."""\nimport os\nos.getenv("API_KEY")\n',
            "scripts/b.py": '"""B."""\nimport os\nos.getenv("API_KEY")\n',
        },
    )

    assert asked(home) == (
        Need(
            kind="secret",
            value="API_KEY",
            asked_in="SKILL.md:4 (env), scripts/a.py:3, scripts/b.py:3, "
            "SKILL.md:9 (## Configuration)",
        ),
    )


def test_what_every_tool_has_is_no_secret(write_skill: WriteSkill) -> None:
    names = (
        "PATH HOME LANG TZ TERM USER NO_COLOR TOOL_ARGS TOOL_ARG_X SKILL_NAME SKILL_X SKILLPOUCH_X"
    )
    reads = "".join(f"os.getenv({name!r})\n" for name in names.split())
    front = f"name: demo\ndescription: d\nenv: [{', '.join(names.split())}]\n"

    home = write_skill(front=front, files={"scripts/a.py": f'"""A."""\nimport os\n{reads}'})

    assert asked(home) == ()


def test_a_skill_that_could_not_be_read_asks_by_its_scripts_only(write_skill: WriteSkill) -> None:
    front = "name: demo\ndescription: d\nenv: [API_KEY\n x: : [\n"

    home = write_skill(front=front, files={"scripts/a.sh": "# A.\necho $A_KEY\n"})

    assert [need.value for need in asked(home)] == ["A_KEY"]


def test_strange_values_ask_for_nothing(write_skill: WriteSkill) -> None:
    front = (
        "name: demo\ndescription: d\nenv: 7\nrequires: [env]\ncredentials: {a: {b: c}}\n"
        "metadata: {skillpouch: {secrets: {A: 1}, hosts: [1, '', null], read: 3,"
        " unconfined: 'yes'}}\n"
    )

    assert asked(write_skill(front=front)) == ()


@without_deadline
@given(st.binary(max_size=400))
def test_any_body_gives_variables_or_none(data: bytes) -> None:
    for name, line in variables_in_body(b"## Configuration\n" + data):
        assert name.isidentifier()
        assert line > 0


def test_profiles_are_asked_for_in_the_own_block(write_skill: WriteSkill) -> None:
    front = (
        "name: demo\ndescription: d\nmetadata:\n  skillpouch:\n    memory: 4 gb\n"
        "    local-sockets: true\n    loopback: true\n    devices: [gpu, disk]\n"
        "    commands: true\n"
    )

    needs = asked(write_skill(front=front))

    assert [(need.kind, need.value) for need in needs] == [
        ("devices", "gpu"),
        ("devices", "disk"),
        ("local-sockets", ""),
        ("loopback", ""),
        ("memory", "4GiB"),
    ]
    assert [need.asked_in.partition(" ")[0] for need in needs[-1:]] == ["SKILL.md:6"]


def test_a_profile_that_is_not_said_in_words_is_none(write_skill: WriteSkill) -> None:
    front = (
        "name: demo\ndescription: d\nmetadata:\n  skillpouch:\n    memory: true\n"
        "    local-sockets: 1\n    loopback: false\n    devices: {gpu: true}\n"
    )

    assert asked(write_skill(front=front)) == ()


def test_a_review_names_the_variables_that_modules_of_the_skill_read(
    write_skill: WriteSkill,
) -> None:
    home = write_skill(
        files={
            "scripts/x.py": "import os\nimport client\nos.environ['OWN_KEY'], client.HOST\n",
            "scripts/client.py": "import os\n\nHOST = os.environ['LAMP_TOKEN'], os.environ\n",
            "scripts/unused.py": "import os\nos.environ['OTHER_KEY']\n",
        }
    )
    manager = SkillManager(home.parent, cache=False)
    skill: Skill = manager.get_skill(home.name)
    tools = [tool for tool in manager.get_skill_tools(skill.name) if tool.id == "demo.x"]

    review = review_skill(skill, lambda: tools, Grants(), lambda _: ())

    assert [need for need in review.asks if need.kind == "secret"] == [
        Need(kind="secret", value="OWN_KEY", declared=False, asked_in="scripts/x.py:3"),
        Need(kind="secret", value="LAMP_TOKEN", declared=False, asked_in="scripts/client.py:3"),
    ]


CONFIGURATION = """
## Configuration

- `MAX_ROWS`: how many rows are read
- `OUTPUT_DIR`: where results go (optional)
- `API_KEY`: for the service; the default key works, too
- `ROW_LABEL`: what rows are called
"""
READS = (
    "import os\nos.environ.get('MAX_ROWS', '100'), os.environ['ROW_LABEL']\n"
    "os.getenv('OUTPUT_DIR'), os.environ.get('API_KEY', 'abc')\n"
)


def test_what_has_a_default_or_is_called_optional_does_not_stop_a_call(
    write_skill: WriteSkill,
) -> None:
    home = write_skill(files={"scripts/x.py": READS}, body=CONFIGURATION)
    manager = SkillManager(home.parent)
    [tool] = manager.tools

    asked = asks_of(manager.get_skill("demo"), [tool])

    assert {need.value: (need.kind, need.declared) for need in asked} == {
        "MAX_ROWS": ("setting", False),
        "OUTPUT_DIR": ("setting", False),
        "API_KEY": ("secret", False),
        "ROW_LABEL": ("secret", True),
    }
    assert [need.value for need in tool.asks] == ["ROW_LABEL"]
