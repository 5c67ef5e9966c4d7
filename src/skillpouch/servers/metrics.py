"""Counts of what a server did, as text that Prometheus reads."""

from collections import Counter

from skillpouch.servers.admission import Admission

_BOUNDS = (0.001, 0.005, 0.02, 0.1, 0.5, 2.0, 10.0, 60.0)  # seconds


class Metrics:
    """What ended how, how long it took, what was refused, and what runs now.

    No names of tools: a skill could have thousands, and they are nobody else's business.
    """

    def __init__(self, admission: Admission) -> None:
        self._admission = admission
        self._ended: Counter[str] = Counter()
        self._refused: Counter[str] = Counter()
        self._within: Counter[float] = Counter()
        self._seconds = 0.0

    @property
    def is_ready(self) -> bool:
        """Whether new calls are taken."""
        return not self._admission.is_stopping

    def ended(self, outcome: str, seconds: float) -> None:
        """Count a call that ran."""
        self._ended[outcome] += 1
        self._seconds += seconds
        self._within.update(bound for bound in _BOUNDS if seconds <= bound)

    def refused(self, fault: str) -> None:
        """Count a call that did not."""
        self._refused[fault] += 1

    def text(self) -> str:
        """Return everything in the exposition format."""
        total = sum(self._ended.values())
        lines = [
            "# TYPE skillpouch_calls_total counter",
            *(
                f'skillpouch_calls_total{{outcome="{o}"}} {n}'
                for o, n in sorted(self._ended.items())
            ),
            "# TYPE skillpouch_refused_total counter",
            *(
                f'skillpouch_refused_total{{fault="{f}"}} {n}'
                for f, n in sorted(self._refused.items())
            ),
            "# TYPE skillpouch_call_seconds histogram",
            *(f'skillpouch_call_seconds_bucket{{le="{b:g}"}} {self._within[b]}' for b in _BOUNDS),
            f'skillpouch_call_seconds_bucket{{le="+Inf"}} {total}',
            f"skillpouch_call_seconds_sum {self._seconds:.6f}",
            f"skillpouch_call_seconds_count {total}",
            "# TYPE skillpouch_running gauge",
            f"skillpouch_running {self._admission.running}",
            "# TYPE skillpouch_waiting gauge",
            f"skillpouch_waiting {self._admission.waiting}",
        ]
        return "\n".join(lines) + "\n"
