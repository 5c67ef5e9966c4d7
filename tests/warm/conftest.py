from collections.abc import Iterator

import pytest

from tests.warm.ways import Ways


@pytest.fixture(scope="session")
def ways(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ways]:
    made = Ways(tmp_path_factory.mktemp("ways"))
    yield made
    made.close()
