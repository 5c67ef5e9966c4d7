from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from skillpouch.journal.journal import Journal
from skillpouch.journal.reading import JournalReader, Query
from skillpouch.journal.records import Entry

ReadAll = Callable[[], list[Entry]]


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    return tmp_path / "state"


@pytest.fixture
def said() -> list[str]:
    """What a journal warned of."""
    return []


@pytest.fixture
def journal(directory: Path, said: list[str]) -> Iterator[Journal]:
    journal = Journal(directory, warn=said.append)
    yield journal
    journal.close()


@pytest.fixture
def read_all(directory: Path, said: list[str]) -> ReadAll:
    def read() -> list[Entry]:
        with JournalReader(directory, warn=said.append) as reader:
            return list(reader.after(Query()))

    return read
