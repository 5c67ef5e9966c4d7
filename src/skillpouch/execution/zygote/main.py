"""Starts a zygote, the trials or a view of layers, without importing skillpouch."""

import sys
import types
from _socket import socket

_CONTROL = 3  # the socket to the host: the first number after the standard streams


def _import_only_this_folder() -> None:
    # Empty packages in place of the real ones: importing skillpouch would load modules into the
    # memory of every sandbox, and with -I the zygote would not even find it.
    here = __file__.rpartition("/")[0]
    for name, folder in (
        ("skillpouch", ""),
        ("skillpouch.execution", ""),
        ("skillpouch.execution.zygote", here),
    ):
        package = types.ModuleType(name)
        package.__path__ = [folder] if folder else []
        sys.modules[name] = package


if __name__ == "__main__":
    _import_only_this_folder()
    if sys.argv[1] == "serve":
        from skillpouch.execution.zygote.serve import serve

        serve(socket(fileno=_CONTROL))
    elif sys.argv[1] == "show":
        from skillpouch.execution.zygote.overlay import show_stack

        show_stack(socket(fileno=_CONTROL))
    else:
        from skillpouch.execution.zygote.trials import report

        report(socket(fileno=_CONTROL))
