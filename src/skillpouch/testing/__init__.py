"""For tests of agents: the tools of a skill in one line, and recorded calls in place of tools."""

from skillpouch.testing.cassette import Cassette, CassetteError, CassetteMissError, cassette
from skillpouch.testing.running import run_tool

__all__ = ["Cassette", "CassetteError", "CassetteMissError", "cassette", "run_tool"]
