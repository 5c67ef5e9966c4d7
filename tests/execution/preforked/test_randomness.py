"""What must never repeat: every call has random numbers and names of its own."""

import pytest

from tests.execution.preforked.ways import Given, Ways

pytestmark = pytest.mark.slow

CALLS = 4
CASES = {
    "random": "import random\nprint(random.random())\n",
    "random_choice": "import random\nprint(random.sample(range(10**9), 3))\n",
    "random_instance": "import random\nprint(random.Random().random())\n",
    "random_lazily": "def f():\n    import random\n    print(random.random())\nf()\n",
    "secrets": "import secrets\nprint(secrets.token_hex())\n",
    "system_random": "import random\nprint(random.SystemRandom().random())\n",
    "uuid1": "import uuid\nprint(uuid.uuid1())\n",
    "uuid4": "import uuid\nprint(uuid.uuid4())\n",
    "urandom": "import os\nprint(os.urandom(8))\n",
    "tempfile": "import tempfile\nprint(tempfile.mktemp())\n",
    "mkdtemp": "import tempfile\nprint(tempfile.mkdtemp())\n",
    "ssl": "import ssl\nprint(ssl.RAND_bytes(8))\n",
    "authkey": "import multiprocessing as m\nprint(bytes(m.current_process().authkey))\n",
    "numpy_legacy": "import numpy\nprint(numpy.random.rand())\n",
    "numpy_legacy_import": "from numpy.random import randint\nprint(randint(1 << 60))\n",
    "numpy_generator": "import numpy as np\nprint(np.random.default_rng().random())\n",
    "numpy_state": "import numpy as np\nprint(np.random.RandomState().rand())\n",
    "numpy_lazily": "def f():\n    import numpy as np\n    print(np.random.rand())\nf()\n",
}


@pytest.mark.parametrize("name", CASES)
def test_no_two_calls_get_the_same(ways: Ways, name: str) -> None:
    script = ways.write(f"random_{name}", CASES[name])

    got = [ways.warm(script) for _ in range(CALLS)]

    assert {(ran.status, ran.stderr) for ran in got} == {(0, b"")}
    assert len({ran.stdout for ran in got}) == CALLS


@pytest.mark.parametrize(
    "text",
    [
        "import random\nrandom.seed(3)\nprint(random.random())\n",
        "import random\nprint(random.Random(3).random())\n",
        "import numpy as np\nnp.random.seed(3)\nprint(np.random.rand())\n",
        "import numpy as np\nprint(np.random.default_rng(3).random())\n",
    ],
)
def test_what_is_seeded_repeats(ways: Ways, text: str) -> None:
    script = ways.write(f"seeded_{abs(hash(text))}", text)
    cold = ways.cold(script)

    assert [ways.warm(script) for _ in range(3)] == [cold] * 3


def test_a_generator_that_an_import_keeps_does_not_repeat(ways: Ways) -> None:
    ways.install("fake_names", "import random\n_own = random.Random()\nname = _own.random\n")
    script = ways.write("fake_names", "import fake_names\nprint(fake_names.name())\n")

    got = [ways.end(script, Given(installed=True)).stdout.data for _ in range(3)]

    assert len(set(got)) == 3


def test_strings_hash_alike_in_all_calls_and_that_is_a_known_limit(ways: Ways) -> None:
    script = ways.write("hashes", "print(hash('text'))\n")

    warm = {ways.warm(script).stdout for _ in range(3)}
    cold = {ways.cold(script).stdout for _ in range(3)}

    assert (len(warm), len(cold)) == (1, 3)
