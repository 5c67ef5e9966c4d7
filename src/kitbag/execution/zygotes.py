"""The host's end of a zygote: the process that makes slots for one plan."""

import asyncio
import contextlib
import os
import socket

from kitbag.execution.confinement import Plan
from kitbag.execution.interpreter import zygote_command
from kitbag.execution.slots import Slot
from kitbag.execution.zygote import wire

LimitFields = tuple[tuple[str, int | None], ...]

_CONTROL = 3
_MOST_IDLE_SLOTS = 16  # each costs about 1.4 MB; making one, four milliseconds
_ALL_SIGNALS_DEFAULT = (2, 3, 13, 15, 17, 25)  # what a host may have changed: INT QUIT PIPE TERM …


def start_program(mode: str) -> tuple[int, socket.socket]:
    """Start the zygote program; return its process and our end of its control socket."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    executable, argv = zygote_command(mode)
    nothing = os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)
    places = ((nothing, 0), (nothing, 1), (nothing, 2), (theirs.fileno(), _CONTROL))
    try:
        pid = os.posix_spawn(
            executable,
            argv,
            {"LC_ALL": "C.UTF-8"},
            file_actions=[(os.POSIX_SPAWN_DUP2, fd, place) for fd, place in places],
            setsid=True,
            setsigmask=(),
            setsigdef=_ALL_SIGNALS_DEFAULT,
        )
    except OSError:
        ours.close()
        raise
    finally:
        os.close(nothing)
        theirs.close()
    return pid, ours


def _new_folder_name() -> str:
    import tempfile

    return f"{os.path.realpath(tempfile.gettempdir())}/kitbag-{os.urandom(8).hex()}"


class Zygote:
    """Slots of one plan, made on demand, kept while they are used."""

    def __init__(self, loop: asyncio.AbstractEventLoop, plan: Plan) -> None:
        self._loop = loop
        self._plan = plan
        self._idle: list[tuple[LimitFields, Slot]] = []
        self._busy: dict[Slot, LimitFields] = {}
        self._pid, self._control = start_program("serve")
        self._pidfd = os.pidfd_open(self._pid)
        self.ended = loop.create_future()
        self.alive = True
        self.failure = ""
        self.used_at = loop.time()
        loop.add_reader(self._control.fileno(), self._read)
        loop.add_reader(self._pidfd, self._reap)
        guarded = (os.getpid(), os.getpgid(0))
        wire.send_value(self._control, wire.CONFIGURE, plan.fields(guarded))

    @property
    def busy(self) -> bool:
        return bool(self._busy)

    def take(self, limits: LimitFields) -> Slot:
        """Return a slot sealed with these limits for the caller alone; OSError if we are gone."""
        self.used_at = self._loop.time()
        slot = self._idle_slot(limits) or self._new_slot(limits)
        self._busy[slot] = limits
        return slot

    def _idle_slot(self, limits: LimitFields) -> Slot | None:
        # The one used last: its memory is warm, and the others may end.
        for place in range(len(self._idle) - 1, -1, -1):
            if self._idle[place][0] == limits:
                return self._idle.pop(place)[1]
        return None

    def _new_slot(self, limits: LimitFields) -> Slot:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        ours.setblocking(False)
        temporary = None if self._plan.namespaces else _new_folder_name()
        fields = {**dict(limits), "temporary": temporary}
        # Nothing waits for the zygote to be ready: it reads this when it is.
        try:
            wire.send_value(self._control, wire.NEW_SLOT, fields, (theirs.fileno(),))
        except OSError:
            ours.close()
            raise
        finally:
            theirs.close()
        return Slot(self._loop, ours, temporary, self)

    def give_back(self, slot: Slot, *, reusable: bool) -> None:
        limits = self._busy.pop(slot, None)
        self.used_at = slot.idle_since = self._loop.time()
        if limits is not None and slot.alive and reusable and self.alive:
            self._idle.append((limits, slot))
            if len(self._idle) > _MOST_IDLE_SLOTS:
                self._idle.pop(0)[1].close()
        else:
            slot.close()

    def lose(self, slot: Slot) -> None:
        """End with a slot that was lost: only our own end proves that its programs are dead."""
        self._forget(slot)
        self.close()
        self.ended.add_done_callback(lambda _: slot.confirm_lost())

    def _forget(self, slot: Slot) -> None:
        self._idle = [entry for entry in self._idle if entry[1] is not slot]

    def end_idle_slots(self, before: float) -> None:
        """Close slots not used since `before`."""
        for _, slot in [entry for entry in self._idle if entry[1].idle_since < before]:
            slot.close()
            self._forget(slot)

    def _read(self) -> None:
        if not self._hear():
            self._let_go()

    def _hear(self) -> bool:
        """Take what the zygote says; whether it is still there."""
        try:
            while packet := self._control.recv(1024, socket.MSG_DONTWAIT):
                if packet[:1] == wire.FAILED:
                    self.failure = packet[1:].strip().decode(errors="replace")
        except BlockingIOError:
            return True
        except OSError:
            return False
        return False

    def _reap(self) -> None:
        self._loop.remove_reader(self._pidfd)
        os.close(self._pidfd)
        with contextlib.suppress(ChildProcessError):
            os.waitpid(self._pid, 0)
        self._let_go()
        if not self.ended.done():
            self.ended.set_result(None)

    def close(self) -> None:
        """End the zygote, and every slot with what it runs."""
        if self.alive:
            self._let_go()
            for slot in list(self._busy):
                slot.drop()

    def _let_go(self) -> None:
        if not self.alive:
            return
        self.alive = False
        self._hear()  # a slot's end may be noticed before the reason for it
        self._loop.remove_reader(self._control.fileno())
        self._control.close()
        for _, slot in self._idle:
            slot.close()
        self._idle.clear()

    def reap(self) -> None:
        """Wait for the end of an abandoned zygote of our own."""
        with contextlib.suppress(ChildProcessError):
            os.waitpid(self._pid, 0)

    def abandon(self) -> None:
        """Close descriptors only: the loop is closed or, after a fork, the parent's."""
        self._control.close()
        if not self.ended.done():
            os.close(self._pidfd)
        for slot in (*self._busy, *(slot for _, slot in self._idle)):
            slot.abandon()
