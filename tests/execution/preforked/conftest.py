from collections.abc import Iterator

import pytest

from tests.execution.preforked.ways import Ways


@pytest.fixture(scope="session")
def ways(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ways]:
    made = Ways(tmp_path_factory.mktemp("ways"))
    yield made
    made.close()
