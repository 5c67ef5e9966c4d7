"""A session over the wire, as A3S Box has it: activate a skill, call its tools, deactivate it."""

import json

import grpc
import pytest

from skillpouch.servers.grpc.v1 import skillpouch_pb2 as pb
from tests.servers.grpc.conftest import NewServer
from tests.servers.grpc.serving import call, connected, refusal

pytestmark = pytest.mark.slow

SHOUT = """---
name: shouting
description: Makes text loud
tools:
  - name: shout
    description: Say it loudly
    backend:
      type: script
      interpreter: python3
      script: |
        import os
        print(os.environ["TOOL_ARG_TEXT"].upper())
    parameters:
      type: object
      properties:
        text:
          type: string
      required: [text]
---

Shout.
"""


async def test_a_session_uses_a_skill_calls_its_tool_and_lets_it_go(new_server: NewServer) -> None:
    async with connected(new_server()) as stub:
        session = (await stub.CreateSession(pb.CreateSessionRequest())).session_id
        used = await stub.UseSkill(
            pb.UseSkillRequest(session_id=session, skill_name="shouting", skill_content=SHOUT)
        )
        active = await stub.ListActiveSkills(pb.ListActiveSkillsRequest(session_id=session))
        result = await call(stub, "shout", {"text": "hey"}, session_id=session)
        removed = await stub.RemoveSkill(
            pb.RemoveSkillRequest(session_id=session, skill_name="shouting")
        )
        after = await refusal(call(stub, "shout", {"text": "hey"}, session_id=session))

    assert list(used.tool_names) == ["shout"]
    assert list(active.skill_names) == ["shouting"]
    assert (result.outcome, result.is_error, result.content) == ("ok", False, "HEY")
    assert (result.stdout, result.stderr, result.exit_code) == ("HEY\n", "", 0)
    assert list(removed.removed_tools) == ["shout"]
    assert after == (grpc.StatusCode.NOT_FOUND, "unknown_tool")


async def test_a_session_sees_shared_tools_and_its_own_never_those_of_another(
    new_server: NewServer,
) -> None:
    async with connected(new_server()) as stub:
        one = (await stub.CreateSession(pb.CreateSessionRequest(session_id="one"))).session_id
        two = (await stub.CreateSession(pb.CreateSessionRequest(session_id="two"))).session_id
        use = pb.UseSkillRequest(session_id=one, skill_name="shouting", skill_content=SHOUT)
        await stub.UseSkill(use)
        seen = {
            name: [
                tool.id
                for tool in (await stub.ListTools(pb.ListToolsRequest(session_id=name))).tools
            ]
            for name in (one, two, "")
        }
        other = await refusal(call(stub, "shout", {"text": "hey"}, session_id=two))

    shared = ["demo.echo", "demo.fail", "demo.much", "demo.slow", "demo.steps"]
    assert seen == {"one": [*shared, "shouting.shout"], "two": shared, "": shared}
    assert other == (grpc.StatusCode.NOT_FOUND, "unknown_tool")


async def test_a_tool_is_listed_with_all_that_a_client_needs_to_call_it(
    new_server: NewServer,
) -> None:
    async with connected(new_server()) as stub:
        found = (await stub.ListTools(pb.ListToolsRequest(page_size=1))).tools[0]

    assert (found.id, found.name, found.skill) == ("demo.echo", "demo__echo", "demo")
    assert (found.description, found.kind, found.ready) == ("Say it again.", "script", True)
    assert json.loads(found.input_schema_json)["properties"]["text"]["description"] == "what to say"


async def test_pages_of_tools_have_every_tool_once(new_server: NewServer) -> None:
    found, token, pages = [], "", 0
    async with connected(new_server()) as stub:
        while pages == 0 or token:
            page = await stub.ListTools(pb.ListToolsRequest(page_size=2, page_token=token))
            found += [tool.id for tool in page.tools]
            token, pages = page.next_page_token, pages + 1

    assert found == ["demo.echo", "demo.fail", "demo.much", "demo.slow", "demo.steps"]
    assert pages == 3


async def test_what_is_wrong_with_a_session_has_a_status_and_a_code(new_server: NewServer) -> None:
    async with connected(new_server()) as stub:
        await stub.CreateSession(pb.CreateSessionRequest(session_id="taken"))
        refusals = [
            await refusal(stub.CreateSession(pb.CreateSessionRequest(session_id="taken"))),
            await refusal(stub.CreateSession(pb.CreateSessionRequest(session_id="../up"))),
            await refusal(stub.DestroySession(pb.DestroySessionRequest(session_id="none"))),
            await refusal(stub.ListTools(pb.ListToolsRequest(session_id="none"))),
            await refusal(call(stub, "demo.echo", {"text": "x"}, session_id="none")),
            await refusal(
                stub.UseSkill(
                    pb.UseSkillRequest(
                        session_id="taken", skill_name="x", skill_content="---\ntools: ["
                    )
                )
            ),
        ]

    assert refusals == [
        (grpc.StatusCode.ALREADY_EXISTS, "session_exists"),
        (grpc.StatusCode.INVALID_ARGUMENT, "session_name"),
        (grpc.StatusCode.NOT_FOUND, "unknown_session"),
        (grpc.StatusCode.NOT_FOUND, "unknown_session"),
        (grpc.StatusCode.NOT_FOUND, "unknown_session"),
        (grpc.StatusCode.INVALID_ARGUMENT, "skill_text"),
    ]


async def test_text_that_is_no_skill_is_refused_as_an_executor_refuses_it(
    new_server: NewServer,
) -> None:
    async with connected(new_server()) as stub:
        session = (await stub.CreateSession(pb.CreateSessionRequest())).session_id
        use = pb.UseSkillRequest(session_id=session, skill_name="a", skill_content="only words")
        refused = await refusal(stub.UseSkill(use))
        active = await stub.ListActiveSkills(pb.ListActiveSkillsRequest(session_id=session))

    assert refused == (grpc.StatusCode.INVALID_ARGUMENT, "skill_text")
    assert list(active.skill_names) == []


async def test_what_was_noticed_about_a_skill_can_be_read_without_paths_of_the_server(
    new_server: NewServer,
) -> None:
    text = SHOUT.replace("tools:\n", "tools:\n  - name: lost\n    backend: {type: magic}\n")
    async with connected(new_server()) as stub:
        session = (await stub.CreateSession(pb.CreateSessionRequest())).session_id
        used = await stub.UseSkill(
            pb.UseSkillRequest(session_id=session, skill_name="shouting", skill_content=text)
        )
        listed = await stub.ListProblems(pb.ListProblemsRequest(session_id=session))
        shared = await stub.ListProblems(pb.ListProblemsRequest())

    message = (
        "tool 'lost': no installed package provides the backend type 'magic', "
        "an entry point of that name in skillpouch.backends: install the package that does"
    )
    lost = pb.Problem(
        path="shouting/SKILL.md",
        code="backend-not-provided",
        severity="error",
        message=message,
        line=5,
    )
    assert list(used.tool_names) == ["lost", "shout"]
    assert list(used.problems) == [lost]
    assert list(listed.problems) == [lost]
    assert not [each for each in shared.problems if each.path.startswith("/")]
