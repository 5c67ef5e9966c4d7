"""Tool: its names, its schema, what it runs, and its effects."""

import re
import sys
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from copy import deepcopy
from dataclasses import dataclass, field, fields, replace
from hashlib import sha256
from pathlib import Path
from types import BuiltinFunctionType, FunctionType
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeVar
from unicodedata import normalize

from skillpouch.errors import UnboundToolError
from skillpouch.needs import Need
from skillpouch.problems import Problem
from skillpouch.results import ToolResult
from skillpouch.runtime.memoize import Shared, SharedCall, memoize_by_id
from skillpouch.signatures.argv import ArgvPlan
from skillpouch.signatures.shebang import Language, language_of
from skillpouch.signatures.signature import Convention, Dependencies, JsonSchema, says_only_which

# OpenAI and Anthropic accept no other characters in the name of a tool.
_ILLEGAL = re.compile(r"[^A-Za-z0-9_-]")
_SEPARATORS = re.compile(r"[.:/]")
_LONGEST = 64
_Value = TypeVar("_Value")
_PARAMETER = re.compile(r"[A-Za-z0-9_.-]{1,64}\Z")  # Anthropic's rule, the strictest
_NOT_IN_PARAMETERS = re.compile(r"[^A-Za-z0-9_.-]+")
_NOT_IN_VARIABLES = re.compile(r"[^A-Z0-9_]")
BACKEND = "backend:"  # a prefix in `Tool.needs`: not an executable, but a backend of a package
_KEPT = 55  # 55 characters, an underscore and 8 hex digits make 64


def script_tool_name(path: str) -> str:
    """Return the tool name of a script below `scripts/`: `utils/parse.py` → `utils-parse`."""
    parts = [part for part in path.replace("\\", "/").split("/") if part not in ("", ".")]
    if parts and parts[0] == "scripts":
        del parts[0]
    if parts and language_of(parts[-1]) is not None:
        parts[-1] = parts[-1].rpartition(".")[0]
    return "-".join(parts)


def tool_id(skill: str, tool: str) -> str:
    """Return the canonical name of a tool, the same in every record and at every entry point."""
    return f"{skill}.{tool}"


def short_name(skill: str, tool_id: str) -> str:
    """Return the name of a tool without that of its skill."""
    return tool_id.removeprefix(f"{skill}.")


def argument_variable(name: str) -> str:
    """Return the environment variable that holds an argument: `chunk-size` → TOOL_ARG_CHUNK_SIZE.

    Its name is legal in every shell. Two arguments may have the same variable.
    """
    return f"TOOL_ARG_{_NOT_IN_VARIABLES.sub('_', name.upper())}"


def model_schema(schema: dict[str, Any]) -> dict[str, Any]:
    """Return an input schema for models, with names of parameters that providers accept.

    Providers refuse rules on which of several parameters must be given: descriptions say that.
    """
    return _shown(schema) or schema


@memoize_by_id
def _shown(schema: dict[str, Any]) -> dict[str, Any] | None:
    safe = {real: said for said, real in real_names(schema).items()}
    rules = [key for key in ("anyOf", "allOf") if says_only_which(schema.get(key))]
    if not safe and not rules:
        return None
    properties = schema["properties"]
    return {
        **{key: each for key, each in schema.items() if key not in rules},
        "properties": {
            safe.get(name, name): _explained(name, each) if name in safe else each
            for name, each in properties.items()
        },
        **(
            {"required": [safe.get(name, name) for name in schema["required"]]}
            if isinstance(schema.get("required"), list)
            else {}
        ),
    }


def _explained(name: str, schema: Any) -> Any:
    if not isinstance(schema, dict):
        return schema
    said = schema.get("description")
    return {**schema, "description": f"{name}: {said}" if said else name}


@memoize_by_id
def real_names(schema: dict[str, Any]) -> dict[str, str]:
    """Return safe spelling → name of each parameter whose name a model provider would refuse."""
    properties = schema.get("properties")
    if not isinstance(properties, dict):
        return {}
    found: dict[str, str] = {}
    for name in properties:
        if not _PARAMETER.match(name):
            safe = _NOT_IN_PARAMETERS.sub("_", normalize("NFKD", name)).strip("_")
            if not _PARAMETER.match(safe) or safe in properties or safe in found:
                digest = sha256(name.encode(errors="surrogatepass")).hexdigest()
                safe = f"{safe[:_KEPT] or 'p'}_{digest[:8]}"
            found[safe] = name
    return found


def is_wire_name(name: str) -> bool:
    """Tell whether every model provider accepts `name` as it is."""
    return 0 < len(name) <= _LONGEST and _ILLEGAL.search(name) is None


def wire_name(skill: str, tool: str, *, declared: bool) -> str:
    """Return the name a model sees.

    A declared name is kept when it is legal. Everything else becomes `skill__tool`; when that is
    too long, or could stand for two different ids, a hash of the id keeps it unique.
    """
    if declared and is_wire_name(tool):
        return tool
    return qualified_wire_name(skill, tool)


def skill_wire_name(skill: str) -> str:
    """Return the name by which a model is shown a skill as if it were a tool."""
    if is_wire_name(skill):
        return skill
    plugin, _, name = skill.rpartition(":")
    joined = _SEPARATORS.sub("__", skill)
    if plugin and is_wire_name(joined) and "__" not in skill:
        return joined
    return hashed_wire_name(plugin or "skill", name)


def qualified_wire_name(skill: str, tool: str) -> str:
    """Return `skill__tool`, or the hashed form when that is too long or ambiguous."""
    joined = _joined(skill, tool)
    legal = _legal(joined)
    if len(legal) <= _LONGEST and legal in (joined, f"_{joined}") and "__" not in skill:
        return legal
    return hashed_wire_name(skill, tool)


def hashed_wire_name(skill: str, tool: str, attempt: int = 0) -> str:
    """Return a legal name that no other id has: its beginning and a hash of the id."""
    hashed = tool_id(skill, tool) + (f"#{attempt}" if attempt else "")
    digest = sha256(hashed.encode(errors="surrogatepass")).hexdigest()
    return f"{_legal(_joined(skill, tool))[:_KEPT]}_{digest[:8]}"


def _joined(skill: str, tool: str) -> str:
    return f"{_SEPARATORS.sub('__', skill)}__{_SEPARATORS.sub('__', tool)}"


def _legal(joined: str) -> str:
    legal = _ILLEGAL.sub("_", joined)
    return legal if legal[0].isalpha() or legal[0] == "_" else f"_{legal}"


def in_any_form(named: Mapping[str, _Value], name: str) -> _Value | None:
    """Return the value under a name; composed and decomposed accents (NFC, NFD) are the same."""
    if name in named or name.isascii():
        return named.get(name)
    wanted = normalize("NFC", name)
    same = (named[each] for each in list(named) if normalize("NFC", each) == wanted)
    return next(same, None)


Effect = Literal["read", "write", "network", "destructive", "execute"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Script:
    """A file of the skill, run by its interpreter."""

    file: str
    language: Language
    convention: Convention
    plan: ArgvPlan | None = None
    takes_nothing: bool = False  # it reads no input: a model is shown no `data`, but may give it
    reads_lines: bool = False  # of standard input: `data` that is text arrives as it is
    shebang: tuple[str, ...] = ()
    dependencies: Dependencies | None = None

    @property
    def path(self) -> Path:
        return Path(self.file)


@dataclass(frozen=True, slots=True, kw_only=True)
class InlineScript:
    """Program text from the declaration itself."""

    interpreter: str
    text: str
    interpreter_args: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Binary:
    """An executable: a path, or a URL it is fetched from.

    `url` and `sha256` may differ by platform: `{"linux-x86_64": …, "any": …}`.
    """

    path: str | None = None
    url: str | Mapping[str, str] | None = None
    args_template: str | None = None
    sha256: str | Mapping[str, str] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Http:
    """A request to a web service; `extra` keeps fields that shape the body."""

    url: str
    method: str = "POST"
    headers: Mapping[str, str] = field(default_factory=dict)
    body_template: str | None = None
    extra: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class External:
    """What the backend of another package runs: its entry point in `skillpouch.backends` is `type`.

    `options` are the other keys of the declaration, `package` is what the skill says to install.
    """

    type: str
    options: Mapping[str, Any] = field(default_factory=dict)
    package: str = ""

    @property
    def need(self) -> str:
        """The entry in `Tool.needs` that stands for this backend."""
        return f"{BACKEND}{self.type}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Stub:
    """Nothing to run: the tool tells its caller to load the skill and follow it."""

    skill: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Function:
    """A Python function of the host, called in its process; equal if defined in the same place.

    A pickled function of a module is found again in another process. Any other function cannot be
    called there, and raises UnboundToolError.
    """

    call: Callable[..., Any] = field(compare=False)
    is_async: bool = False
    where: str = ""

    def __post_init__(self) -> None:
        object.__setattr__(self, "where", self.where or _where(self.call))
        object.__setattr__(self, "call", _uncopied(self.call))

    def __reduce__(self) -> tuple[Any, ...]:
        call = self.call if _is_importable(self.call) else _Elsewhere(self.where)
        return _restored, (Function, {"call": call, "is_async": self.is_async, "where": self.where})


@dataclass(frozen=True, slots=True, kw_only=True)
class Hosted:
    """Code of the host that receives the whole call, and enforces its limits itself."""

    what: str  # what an approver is shown
    run: Callable[[Any], Awaitable[ToolResult]] = field(compare=False)  # takes a ToolCall
    granted: tuple[Need, ...] = ()  # by the user who configured it
    writes_workspace: bool = False  # by itself, or through the tools that it calls
    keeps_changes: bool = False  # by itself: it undoes or applies what another call changed

    def __post_init__(self) -> None:
        object.__setattr__(self, "run", _uncopied(self.run))

    def __reduce__(self) -> tuple[Any, ...]:
        run = self.run if _is_importable(self.run) else _Elsewhere(self.what)
        facts = {"writes_workspace": self.writes_workspace, "keeps_changes": self.keeps_changes}
        return _restored, (Hosted, {"what": self.what, "run": run, "granted": self.granted} | facts)


@dataclass(frozen=True, slots=True, kw_only=True)
class BuiltIn:
    """One of Skillpouch's own tools; `session` is the state that the tools of one session share.

    `run` implements the call; None for the tools of the workspace, which are found by name.
    """

    name: str
    session: Any = field(repr=False, compare=False)
    run: Callable[[Any], Any] | None = field(default=None, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "run", _uncopied(self.run))

    def __reduce__(self) -> tuple[Any, ...]:
        elsewhere = _Elsewhere(f"Skillpouch's own tool {self.name}")
        return _restored, (BuiltIn, {"name": self.name, "session": None, "run": elsewhere})


class _Elsewhere:
    """Stands for a function that exists only in the process in which the tool was pickled."""

    def __init__(self, what: str) -> None:
        self.what = what

    def __call__(self, *_words: Any, **_named: Any) -> Any:
        raise UnboundToolError(self.what, made_elsewhere=True)


def _where(call: Callable[..., Any]) -> str:
    name = getattr(call, "__qualname__", type(call).__qualname__)
    return f"{getattr(call, '__module__', '')}.{name}"


def _is_importable(call: Callable[..., Any]) -> bool:
    """Tell whether pickle, which writes only module and name, would find this same function."""
    found: Any = sys.modules.get(getattr(call, "__module__", None) or "")
    for name in getattr(call, "__qualname__", "").split("."):
        found = getattr(found, name, None)
    return found is call


def _uncopied(call: Any) -> Any:
    is_plain = call is None or isinstance(call, FunctionType | BuiltinFunctionType | Shared)
    return call if is_plain else SharedCall(call)


def _restored(kind: type[Any], values: dict[str, Any]) -> Any:
    return kind(**values)


Runs = Script | InlineScript | Binary | Http | External | Stub | Function | Hosted | BuiltIn
Execute = Callable[..., Coroutine[Any, Any, ToolResult]]


class Caller(Protocol):
    """What runs a tool: the executor that it is registered with."""

    async def execute(self, name: str, args: Any = None) -> ToolResult: ...
    def execute_sync(self, name: str, args: Any = None) -> ToolResult: ...


class AwaitedCaller(Shared):
    """Runs tools through one awaited function; `executor` returns what is behind it, for jobs."""

    def __init__(self, execute: Execute, executor: Callable[[], Any]) -> None:
        self.execute, self.executor = execute, executor

    def execute_sync(self, name: str, args: Any = None) -> ToolResult:
        # Here, so that listing tools does not load an event loop.
        from skillpouch.runtime.loop_thread import run_blocking

        return run_blocking(self.execute(name, args))


_HERE = ("caller", "copy", "unpack")
_KINDS: dict[type, str] = {
    Script: "script",
    InlineScript: "inline",
    Binary: "binary",
    Http: "http",
    External: "external",
    Stub: "stub",
    Function: "function",
    Hosted: "hosted",
    BuiltIn: "built-in",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Tool:
    """A callable capability of one skill.

    `id` names it for people and records (`skill.tool`), `name` for models (letters, digits, `_`
    and `-` only). At least one of the executables in `needs` must be installed; `missing` says
    what this machine lacks before a call could succeed.

    A copy is run by the same `caller`. An unpickled tool has none until it is registered: the
    caller, and the objects that it holds, stay in their process.

    A tool from the warm index has its schemas and `runs` still packed: `unpack` makes them when
    one of them is first read. Of thousands of tools, most are only listed by name.
    """

    id: str
    name: str
    skill: str
    description: str
    input_schema: JsonSchema
    runs: Runs
    output_schema: JsonSchema | None = None
    effects: tuple[Effect, ...] = ("read", "write", "execute")
    timeout_ms: int | None = None
    examples: tuple[str, ...] = ()  # usage lines that SKILL.md shows for it
    variables: tuple[str, ...] = ()  # environment variables it reads
    origin: str = ""  # the file it comes from: its script, or what declares it
    declared_in: str = "scripts"  # "scripts", "tools.json", "frontmatter", "manifest"
    read_by: str = ""  # the reader that typed it: "argparse", "handler", "declaration" …
    home: str = ""  # the folder of its skill, or the copy of it that a call runs from
    copied_from: str = ""  # the folder of its skill, when `home` is a copy
    version: str = ""  # of its skill
    allowed_tools: tuple[str, ...] | None = None  # set when `allowed-tools` forbids this tool
    cwd: Literal["workspace", "skill"] = "workspace"
    needs: tuple[str, ...] = ()
    asks: tuple[Need, ...] = ()  # what has to be granted before a call, as far as it is declared
    missing: tuple[str, ...] = ()
    caller: Caller | None = field(default=None, repr=False, compare=False)
    copy: object = field(default=None, repr=False, compare=False)  # keeps the copy at `home` alive
    unpack: Callable[[], dict[str, Any]] | None = field(default=None, repr=False, compare=False)

    if not TYPE_CHECKING:  # hidden from type checkers: they would accept any attribute name

        def __getattr__(self, name: str) -> Any:
            if name == "unpack" or self.unpack is None:
                raise AttributeError(f"'Tool' object has no attribute {name!r}")
            for packed, value in self.unpack().items():
                object.__setattr__(self, packed, value)
            object.__setattr__(self, "unpack", None)
            return getattr(self, name)

    def __reduce__(self) -> tuple[Any, ...]:
        return _restored, (Tool, self._values())

    def __copy__(self) -> "Tool":
        return replace(self)

    def __deepcopy__(self, memo: dict[int, Any]) -> "Tool":
        return replace(self, **deepcopy(self._values(), memo))

    def _values(self) -> dict[str, Any]:
        """Return the fields that can leave this process."""
        names = (each.name for each in fields(Tool) if each.name not in _HERE)
        return {name: getattr(self, name) for name in names}

    @property
    def kind(self) -> str:
        return _KINDS[type(self.runs)]

    @property
    def convention(self) -> Convention | None:
        return self.runs.convention if isinstance(self.runs, Script) else None

    @property
    def place(self) -> str:
        """The original folder of the skill, not a copy: grants and records name this one."""
        return self.copied_from or self.home

    @property
    def ready(self) -> bool:
        return not self.missing

    def invoke(self, arguments: Any = None) -> str:
        """Run the tool and return its content; raise when it fails."""
        return self._caller().execute_sync(self.id, arguments).content_or_raise()

    async def ainvoke(self, arguments: Any = None) -> str:
        """Do what `invoke` does, without blocking the event loop."""
        return (await self._caller().execute(self.id, arguments)).content_or_raise()

    def _caller(self) -> Caller:
        if self.caller is None:
            raise UnboundToolError(self.id)
        return self.caller


def definition_of(tool: Tool) -> dict[str, Any]:
    """Return what a model is shown of a tool."""
    return {
        "name": tool.name,
        "description": tool.description,
        "parameters": model_schema(tool.input_schema),
    }


def bind(tool: Tool, caller: Caller) -> None:
    """Set the caller of a frozen tool. Only code that registers the tool may do this, and once."""
    object.__setattr__(tool, "caller", caller)


@dataclass(frozen=True, slots=True, kw_only=True)
class SkillTools:
    """The tools of a skill and the problems in them; changed `stamps` mean: read them again."""

    tools: tuple[Tool, ...]
    problems: tuple[Problem, ...]
    stamps: dict[str, str]  # by path inside the skill
