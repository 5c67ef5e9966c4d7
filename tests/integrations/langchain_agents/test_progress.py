"""What a tool reports while it runs, in the stream of a graph."""

from pathlib import Path
from typing import TypedDict

from langgraph.graph import END, START, StateGraph

from skillpouch import SkillManager
from skillpouch.integrations.langchain.create_tools import create_langchain_tools
from tests.conftest import WriteSkill


class Said(TypedDict):
    said: str


async def test_a_graph_streams_what_a_script_reports(
    write_skill: WriteSkill, tmp_path: Path
) -> None:
    line = '{"done": 1, "total": 2, "message": "half"}'
    home = write_skill(files={"scripts/x.sh": f"echo '{line}' >> $SKILLPOUCH_PROGRESS\n"})
    tools = create_langchain_tools(SkillManager(home.parent, workspace=tmp_path))
    made = {each.name: each for each in tools}["demo__x"]

    async def node(state: Said) -> Said:
        return {**state, "said": str(await made.ainvoke({"data": None}))}

    graph = StateGraph(Said)
    graph.add_node("node", node)
    graph.add_edge(START, "node")
    graph.add_edge("node", END)
    told = [each async for each in graph.compile().astream({"said": ""}, stream_mode="custom")]

    assert told == [
        {
            "type": "tool_progress",
            "tool": "demo__x",
            "call_id": None,
            "done": 1.0,
            "total": 2.0,
            "message": "half",
        }
    ]
