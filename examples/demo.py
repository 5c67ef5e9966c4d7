"""The main job, start to end: folders of skills become typed tools, and nothing is run."""

import json
from pathlib import Path

from kitbag import SkillManager

EXAMPLES = Path(__file__).parent / "skills"


def main() -> None:
    manager = SkillManager(EXAMPLES)
    manager.discover()
    tools = manager.tools
    print(f"{len(manager.list_skills())} skills, {len(tools)} tools, nothing run:\n")
    for tool in tools:
        arguments = ", ".join(tool.input_schema.get("properties", {}))
        print(f"  {tool.id:<32} {tool.kind:<7} {tool.convention or '-':<8} {arguments}")

    multiply = manager.get_tool("calculator.multiply")
    print(f"\nRead from the argparse calls of {multiply.runs.path.name}, as a model sees it:\n")
    shown = {"name": multiply.name, "description": multiply.description}
    print(json.dumps(shown | {"input_schema": multiply.input_schema}, indent=2))

    print("\nWhat a skill gives an agent when it is used:\n")
    for line in manager.invoke_skill("greeter", "Ada").splitlines()[:8]:
        print(f"  {line}")

    print(f"\n{len(manager.problems)} things worth knowing:\n")
    for problem in manager.problems:
        where = Path(problem.path).relative_to(EXAMPLES)
        print(f"  {problem.severity}: {where}: {problem.message}")


if __name__ == "__main__":
    main()
