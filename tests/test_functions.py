"""Python functions as tools: typed from their signature, called like any other tool."""

import asyncio
import contextvars
import dataclasses
import functools
import json
import subprocess
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from skillpouch import Limits, Tool, ToolExecutor, ToolRegistry, ToolResult, tool
from skillpouch.errors import InvalidArgumentsError, ScriptExecutionError, WorkspaceError

word: contextvars.ContextVar[str] = contextvars.ContextVar("word", default="unset")


@pytest.fixture
def call(tmp_path: Path) -> Callable[..., ToolResult]:
    def run(
        function: Callable[..., Any] | Tool, args: Any = None, limits: Limits | None = None
    ) -> ToolResult:
        made = function if isinstance(function, Tool) else tool(function)
        return ToolExecutor([made], workspace=tmp_path, limits=limits).execute_sync(made.id, args)

    return run


def test_wrong_arguments_raise_and_the_function_is_not_called(call: Any) -> None:
    called = []

    def function(n: int) -> None:
        called.append(n)

    with pytest.raises(InvalidArgumentsError, match="n: "):
        call(function, {"n": "one"})

    assert called == []


async def test_an_async_function_runs_on_the_loop_of_the_caller(tmp_path: Path) -> None:
    @tool
    async def where() -> bool:
        await asyncio.sleep(0)
        return asyncio.get_running_loop() is loop

    loop = asyncio.get_running_loop()

    result = await ToolExecutor([where], workspace=tmp_path).execute("where")

    assert (result.content, result.structured) == ("true", True)


async def test_a_blocking_function_does_not_block_the_loop(tmp_path: Path) -> None:
    gate = threading.Event()

    @tool
    def wait() -> bool:
        return gate.wait(10)

    task = asyncio.create_task(ToolExecutor([wait], workspace=tmp_path).execute("wait"))
    await asyncio.sleep(0)
    gate.set()

    assert (await task).structured is True


def test_context_variables_of_the_caller_are_seen(call: Any) -> None:
    async def later() -> str:
        return word.get()

    word.set("mine")

    assert call(lambda_named(word.get)).content == "mine"
    assert call(later).content == "mine"


def lambda_named(target: Callable[[], Any]) -> Callable[[], Any]:
    def function() -> Any:
        return target()

    return function


def test_a_wrapped_async_function_is_awaited(call: Any) -> None:
    async def inner() -> str:
        return "awaited"

    @functools.wraps(inner)
    def wrapper() -> Any:
        return inner()

    assert call(wrapper).content == "awaited"
    assert call(tool(name="part")(functools.partial(inner))).content == "awaited"


@pytest.mark.parametrize("error", [ValueError("no"), KeyError("no"), TimeoutError("no")])
def test_what_a_function_raises_is_a_failed_result(call: Any, error: Exception) -> None:
    def fail() -> None:
        raise error

    result = call(fail)

    assert (result.outcome, result.exit_code) == ("failed", 1)
    assert "no" in result.structured["error"]


def test_what_an_error_was_raised_from_is_told_too(call: Any) -> None:
    def fail() -> None:
        try:
            dict[str, str]()["city"]
        except KeyError as error:
            raise ValueError("no forecast") from error

    assert call(fail).content == "ValueError: no forecast\nbecause of KeyError: 'city'"


def test_an_error_that_is_its_own_cause_is_told_once(call: Any) -> None:
    error = ValueError("odd")
    error.__cause__ = error

    def fail() -> None:
        raise error

    assert call(fail).content == "ValueError: odd"


def test_invoke_raises_for_a_function_that_failed(tmp_path: Path) -> None:
    @tool
    def fail() -> None:
        raise ValueError("no such city")

    executor = ToolExecutor([fail], workspace=tmp_path)

    with pytest.raises(ScriptExecutionError, match="no such city"):
        executor._source.get("fail").invoke()


def test_an_async_function_that_takes_too_long_is_stopped(call: Any) -> None:
    ended = []

    async def hang() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ended.append("cancelled")

    result = call(hang, limits=Limits(timeout_seconds=0.1))

    assert (result.outcome, result.exit_code, ended) == ("timed_out", 124, ["cancelled"])


def endless() -> list[Any]:
    value: list[Any] = []
    value.append(value)
    return value


@dataclasses.dataclass
class Point:
    x: int = 1


@pytest.mark.parametrize(
    "returned",
    [endless(), {(1, 2): 3}, {1, 2}, Path("a"), Point(), float("nan"), "\ud800", b"\xff", object()],
    ids=["endless", "keys", "set", "path", "dataclass", "nan", "surrogate", "bytes", "object"],
)
def test_whatever_a_function_returns_is_an_answer_that_can_be_written_down(
    call: Any, returned: Any
) -> None:
    result = call(lambda_named(lambda: returned))

    result.content.encode()
    json.dumps(result.structured, allow_nan=False, ensure_ascii=False).encode()


def test_escapes_in_an_answer_are_removed_from_content(call: Any) -> None:
    assert call(lambda_named(lambda: "\x1b[31mred\u202e")).content == "red"


def test_functions_that_call_functions_do_not_wait_for_each_other_forever(tmp_path: Path) -> None:
    @tool
    def inner(n: int) -> int:
        return n

    @tool
    def outer(n: int) -> Any:
        return executor.execute_sync("inner", {"n": n}).structured

    # More callers than the threads that asyncio keeps for blocking functions.
    limits = Limits(timeout_seconds=10)
    executor = ToolExecutor([inner, outer], workspace=tmp_path, limits=limits)

    with ThreadPoolExecutor(40) as threads:
        results = list(threads.map(lambda n: executor.execute_sync("outer", {"n": n}), range(40)))

    assert [result.structured for result in results] == list(range(40))


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["def", "async def"])
def test_a_function_that_exits_does_not_take_the_host_with_it(kind: str, tmp_path: Path) -> None:
    code = (
        "import sys, skillpouch\n"
        f"@skillpouch.tool\n{kind} leave() -> None:\n    sys.exit(3)\n"
        f"executor = skillpouch.ToolExecutor([leave], workspace={str(tmp_path)!r})\n"
        "results = [executor.execute_sync('leave') for _ in range(2)]\n"
        "print(*[result.outcome for result in results])\n"
    )

    ran = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=100, check=False
    )

    assert ran.stdout == "failed failed\n", ran.stderr


def test_text_of_a_class_of_its_own_is_given_as_plain_text(call: Any) -> None:
    class Text(str):
        __slots__ = ()

        def isascii(self) -> bool:
            raise RuntimeError

    def function() -> str:
        return Text("abc")

    result = call(function)

    assert (type(result.content), type(result.stdout), result.content) == (str, str, "abc")


def test_a_result_of_a_class_of_its_own_stays_one(call: Any) -> None:
    @dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
    class Special(ToolResult):
        mark: int

    def function() -> ToolResult:
        return Special(tool="x", outcome="ok", content="c", mark=7)

    result = call(function)

    assert (type(result), result.mark, bool(result.timings)) == (Special, 7, True)


def test_a_registry_takes_a_function_as_it_is(tmp_path: Path) -> None:
    def shout(text: str) -> str:
        return text.upper()

    registry = ToolRegistry()
    registry.register(shout)

    assert ToolExecutor(registry, workspace=tmp_path).execute_sync("shout", "a").content == "A"


def test_each_call_works_in_the_folder_that_is_current_then(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    @tool
    def speak() -> str:
        return "x" * 1000

    executor = ToolExecutor([speak], limits=Limits(keep_bytes=100))
    homes = []
    for name in ("one", "one", "two"):
        (tmp_path / name).mkdir(exist_ok=True)
        monkeypatch.chdir(tmp_path / name)
        homes.append(executor.execute_sync("speak").saved[0].relative_to(tmp_path).parts[0])

    assert homes == ["one", "one", "two"]


def test_nothing_is_called_where_the_current_folder_is_gone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    called = []

    @tool
    def note() -> None:
        called.append("called")

    executor = ToolExecutor([note])
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    executor.execute_sync("note")
    (tmp_path / "here").rmdir()

    with pytest.raises(WorkspaceError, match="it was removed"):
        executor.execute_sync("note")

    assert called == ["called"]
