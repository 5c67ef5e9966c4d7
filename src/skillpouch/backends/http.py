"""Running an http tool: its request made and permitted, its answer read."""

import shlex
from contextlib import ExitStack

from skillpouch.calls import ToolCall
from skillpouch.errors import CommandStartError, InvalidArgumentsError
from skillpouch.needs import Need
from skillpouch.net.http.errors import PlanError
from skillpouch.net.http.plan import Plan, plan_of
from skillpouch.net.http.request import Filling, Request, make_request
from skillpouch.net.http.uploads import UploadError
from skillpouch.results import ToolResult
from skillpouch.templates import FillError
from skillpouch.tools import Http
from skillpouch.trust.errors import UngrantedError


async def run_http(call: ToolCall, http: Http) -> ToolResult:
    """Send the request of a tool and return what came back.

    Raises when nothing was sent: a value that cannot stand where it is needed, a file that is
    not sent, a host or an address that was not granted.
    """
    from skillpouch.backends.http_call import HttpCall  # what speaks HTTP takes long to import
    from skillpouch.net.http.guard import Granted

    granted = Granted(hosts=call.given.hosts, skill=shlex.quote(call.tool.skill))
    try:
        plan = plan_of(http)
    except PlanError as error:
        raise CommandStartError(call.tool.id, str(error), hint="run `skillpouch check`") from None
    with ExitStack() as files:
        request = _request(call, plan, files)
        if not granted.covers(request.url.host):
            need = Need(kind="host", value=request.url.authority)
            raise UngrantedError(call.tool.skill, [need])
        call.watch.lap("prepare")
        result = await HttpCall(call, plan, granted).run(request)
    call.watch.lap("read the answer")
    return result


def _request(call: ToolCall, plan: Plan, files: ExitStack) -> Request:
    filling = Filling(
        arguments=call.arguments,
        secrets=call.given.secrets,
        workspace=call.terms.workspace,
        stack=files,
        most_bytes=call.limits.file_bytes,
    )
    try:
        return make_request(plan, filling)
    except FillError as error:
        if error.is_variable and error.name in call.given.secrets:
            raise CommandStartError(call.tool.id, str(error)) from None
        if error.is_variable:
            need = Need(kind="secret", value=error.name)
            raise UngrantedError(call.tool.skill, [need]) from None
        raise InvalidArgumentsError(call.tool.id, [str(error)], usage=error.hint) from None
    except UploadError as error:
        raise InvalidArgumentsError(call.tool.id, [str(error)]) from None
