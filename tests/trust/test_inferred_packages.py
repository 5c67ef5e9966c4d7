"""Packages that scripts import and nobody declared: the right names, and how sure they are."""

import json
import sys

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from skillpouch import SkillManager
from skillpouch.needs import Need
from skillpouch.trust.grant import covers_package, split_package
from skillpouch.trust.inferred_packages import (
    Proposal,
    added_folders,
    infer_packages,
    modules_beside,
)
from skillpouch.trust.package_names import _ONLY_ON, _PYTHON, _SAME, is_installed_by_nobody
from skillpouch.trust.requested_packages import package_asks, propose_packages
from tests.conftest import WriteSkill

without_deadline = settings(deadline=None)


def names(text: str, **more: str) -> list[str]:
    files = {"scripts/a.py": text} | {f"scripts/{k}.py": v for k, v in more.items()}
    return [each.package for each in infer_packages("scripts/a.py", files)]


@pytest.mark.parametrize(
    ("line", "package"),
    [
        ("import cv2", "opencv-python"),
        ("from PIL import Image", "pillow"),
        ("import yaml", "PyYAML"),
        ("from sklearn.svm import SVC", "scikit-learn"),
        ("import bs4", "beautifulsoup4"),
        ("from dotenv import load_dotenv", "python-dotenv"),
        ("import docx", "python-docx"),
        ("from pptx.util import Pt", "python-pptx"),
        ("import fitz", "PyMuPDF"),
        ("from Crypto.Cipher import AES", "pycryptodome"),
        ("import dateutil.parser", "python-dateutil"),
        ("from google.cloud import storage", "google-cloud-storage"),
        ("import google.generativeai as genai", "google-generativeai"),
        ("from google import genai", "google-genai"),
        ("from google.protobuf.json_format import Parse", "protobuf"),
        ("from azure.storage.blob import BlobClient", "azure-storage-blob"),
        ("from ruamel.yaml import YAML", "ruamel.yaml"),
        ("from mpl_toolkits.mplot3d import Axes3D", "matplotlib"),
        ("import jwt", "PyJWT"),
        ("import requests.auth", "requests"),
    ],
)
def test_the_package_of_an_import_is_known(line: str, package: str) -> None:
    (found,) = infer_packages("scripts/a.py", {"scripts/a.py": f"{line}\n"})

    assert (found.package, found.confidence) == (package, "known")


def test_the_table_is_of_real_names() -> None:
    assert len(_PYTHON) >= 100
    here = [name for name, package in _PYTHON.items() if package not in _ONLY_ON]
    assert [name for name in here if is_installed_by_nobody(name)] == []
    assert [name for name in _PYTHON.values() if not split_package(name)[0]] == []
    assert not set(_PYTHON) & _SAME


def test_what_python_brings_along_is_no_package() -> None:
    text = "\n".join(f"import {name}" for name in sorted(sys.stdlib_module_names))

    assert (
        names(f"{text}\nimport urllib2, distutils.core\nfrom __future__ import annotations\n") == []
    )


def test_an_unknown_name_is_a_guess_unless_this_machine_has_it() -> None:
    files = {"scripts/a.py": "import one\nimport two\nimport three.part\n"}
    installed = {"two": ["the-two", "the-two"], "three": ["x", "y"]}

    assert infer_packages("scripts/a.py", files, installed=installed) == (
        Proposal(package="one", imported="one", asked_in="scripts/a.py:1", confidence="guess"),
        Proposal(
            package="the-two", imported="two", asked_in="scripts/a.py:2", confidence="installed"
        ),
        Proposal(
            package="three", imported="three.part", asked_in="scripts/a.py:3", confidence="guess"
        ),
    )


@pytest.mark.parametrize(
    ("text", "optional"),
    [
        ("try:\n    import x\nexcept ImportError:\n    x = None\n", True),
        ("try:\n    import x\nexcept (OSError, ModuleNotFoundError):\n    pass\n", True),
        ("try:\n    import x\nexcept Exception:\n    x = None\n", True),
        ("try:\n    import x\nexcept:\n    x = None\n", True),
        ("try:\n    import json\nexcept ImportError:\n    import x\n", True),
        ("try:\n    import x\nexcept ImportError:\n    print('install x')\n    raise\n", False),
        ("import sys\ntry:\n    import x\nexcept ImportError:\n    sys.exit(1)\n", False),
        ("try:\n    import x\nexcept ImportError:\n    raise SystemExit('pip install x')\n", False),
        ("try:\n    import x\nexcept ValueError:\n    pass\n", False),
        ("try:\n    pass\nexcept ImportError:\n    pass\nfinally:\n    import x\n", False),
        ("from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import x\n", True),
        ("import typing\nif typing.TYPE_CHECKING:\n    import x\nelse:\n    pass\n", True),
        ("def main():\n    import x\n", False),
        ("try:\n    import x\nexcept ImportError:\n    x = None\nimport x\n", False),
    ],
)
def test_what_a_script_can_do_without_is_optional(text: str, optional: bool) -> None:
    (found,) = infer_packages("scripts/a.py", {"scripts/a.py": text})

    assert (found.package, found.optional) == ("x", optional)


def test_the_skills_own_modules_are_followed_and_not_proposed() -> None:
    files = {
        "scripts/a.py": "import helper, package.part\nfrom tools import deep\nimport top\n",
        "scripts/helper.py": "import requests\nimport a\n",
        "scripts/package/__init__.py": "from . import part\nfrom .other import x\n",
        "scripts/package/part.py": "import numpy\nfrom ..helper import y\n",
        "scripts/package/other.py": "import scipy\n",
        "scripts/tools/deep.py": "import pandas\n",
        "top.py": "import flask\n",
        "unused/module.py": "import django\n",
    }

    found = infer_packages("scripts/a.py", files)

    assert [each.package for each in found] == ["flask", "numpy", "pandas", "requests", "scipy"]
    assert found[0].asked_in == "top.py:1"


def test_a_module_elsewhere_in_the_skill_is_its_own_only_when_the_path_is_changed() -> None:
    files = {"lib/helper.py": "import numpy\n", "scripts/a.py": "import helper\n"}
    changed = files | {"scripts/a.py": "import sys\nsys.path.insert(0, '../lib')\nimport helper\n"}

    assert [each.package for each in infer_packages("scripts/a.py", files)] == ["helper"]
    assert [each.package for each in infer_packages("scripts/a.py", changed)] == ["numpy"]


@pytest.mark.parametrize(
    "folder",
    [
        'ROOT = Path(__file__).resolve().parents[1]\nsys.path.insert(0, str(ROOT / "src"))',
        'sys.path.append(os.path.join(os.path.dirname(__file__), "..", "src"))',
        'for each in (Path(__file__).parent.parent / "src",):\n    sys.path.insert(0, str(each))',
    ],
)
def test_a_package_below_a_folder_without_files_is_the_skills_own(folder: str) -> None:
    files = {"src/own/__init__.py": "import numpy\n", "scripts/a.py": f"{folder}\nimport own\n"}

    assert [each.package for each in infer_packages("scripts/a.py", files)] == ["numpy"]


@pytest.mark.parametrize(
    ("line", "folder"),
    [
        ('sys.path.insert(0, str(Path(__file__).resolve().parents[3] / "hooks"))', "../../hooks"),
        ("sys.path.append(os.path.dirname(os.path.abspath(__file__)))", "scripts"),
        ('sys.path.insert(0, Path(__file__).parent.joinpath("lib").as_posix())', None),
        ('HERE = Path(__file__).parent\nsys.path.append(str(HERE.parent / "src"))', "src"),
        ('sys.path.append(os.environ["ELSEWHERE"])', None),
    ],
)
def test_folders_that_a_script_adds_follow_from_its_own_path(line: str, folder: str | None) -> None:
    assert added_folders(line, "scripts/a.py") == ({folder} if folder else set())


def test_no_package_is_guessed_for_a_module_that_a_folder_beside_the_skill_may_hold() -> None:
    beside = 'sys.path.insert(0, str(Path(__file__).parents[2] / "hooks"))\n'
    files = {"scripts/a.py": f"{beside}import liveness\nimport yaml\n"}

    assert [each.package for each in infer_packages("scripts/a.py", files)] == ["PyYAML"]
    assert modules_beside("scripts/a.py", files) == ({"liveness": "scripts/a.py:2"}, {"../hooks"})


def test_what_an_optional_module_imports_is_optional() -> None:
    text = "try:\n    import helper\nexcept ImportError:\n    helper = None\n"

    (found,) = infer_packages(
        "scripts/a.py", {"scripts/a.py": text, "scripts/helper.py": "import requests\n"}
    )

    assert found.optional


def test_what_is_declared_is_not_proposed() -> None:
    files = {"scripts/a.py": "import yaml, requests, PIL\n"}

    found = infer_packages("scripts/a.py", files, declared=["pyyaml", "Pillow>=10"])

    assert [each.package for each in found] == ["requests"]


def test_what_is_not_python_imports_nothing() -> None:
    assert names("import (\n") == []
    assert names("import " + ".".join("a" * 5_000)) == []


@without_deadline
@given(st.text(max_size=300))
def test_any_text_gives_proposals_or_none(text: str) -> None:
    for path in ("scripts/a.py", "scripts/a.mjs"):
        for each in infer_packages(path, {path: text}):
            assert split_package(each.package)[0]


def test_javascript_names_its_packages() -> None:
    text = (
        "import fs from 'fs'\nimport { x } from 'node:path'\nimport _ from 'lodash/fp'\n"
        "const s = require('@scope/name/part')\nimport './own.mjs'\nimport '#internal'\n"
        "import x2 from '@/alias'\nexport * from 'chalk'\nawait import('npm:zod@3')\n"
        "import 'https://esm.sh/x'\nimport 'fs/promises'\n"
    )
    files = {"scripts/a.mjs": text, "scripts/own.mjs": "import 'ws'\nimport './a'\n"}

    found = infer_packages("scripts/a.mjs", files, declared=["npm:chalk"])

    assert [(each.package, each.asked_in, each.confidence) for each in found] == [
        ("npm:@scope/name", "scripts/a.mjs:4", "exact"),
        ("npm:lodash", "scripts/a.mjs:3", "exact"),
        ("npm:ws", "scripts/own.mjs:1", "exact"),
        ("npm:zod", "scripts/a.mjs:9", "exact"),
    ]


def test_a_skill_is_read_with_what_it_declares(write_skill: WriteSkill) -> None:
    home = write_skill(
        files={
            "scripts/a.py": '"""A."""\nimport yaml, cv2, helper\nprint()\n',
            "scripts/helper.py": "import numpy\n",
            "scripts/b.py": '"""B."""\n# /// script\n# dependencies = ["rich"]\n# ///\n'
            "import rich, httpx\ntry:\n    import uvloop\nexcept ImportError:\n    pass\nprint()\n",
            "scripts/c.mjs": "// C.\nimport 'chalk'\nimport 'ws'\nconsole.log(1)\n",
            "requirements.txt": "# all\nPyYAML>=6\nnumpy==2 ; python_version > '3'\n-r other.txt\n",
            "package.json": json.dumps({"dependencies": {"chalk": "^5"}}),
        }
    )
    manager = SkillManager(home.parent, cache=False)
    skill, tools = manager.get_skill("demo"), manager.get_skill_tools("demo")

    assert package_asks(skill, tools) == (
        Need(
            kind="packages",
            value="httpx",
            declared=False,
            asked_in="scripts/b.py:5 (imports httpx)",
        ),
        Need(
            kind="packages",
            value="npm:ws",
            declared=False,
            asked_in="scripts/c.mjs:3 (imports ws)",
        ),
        Need(
            kind="packages",
            value="opencv-python",
            declared=False,
            asked_in="scripts/a.py:2 (imports cv2)",
        ),
    )
    optional = [each.package for each in propose_packages(skill, tools) if each.optional]
    assert optional == ["uvloop"]


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("PyYAML", ("pyyaml", "")),
        ("ruamel.yaml>=0.18,<1", ("ruamel-yaml", ">=0.18,<1")),
        ("uvicorn[standard]==0.30", ("uvicorn", "[standard]==0.30")),
        ("npm:@a/b@1.2.3", ("npm:@a/b", "@1.2.3")),
        ("npm:JSONStream", ("npm:JSONStream", "")),
        *(
            (bad, ("", ""))
            for bad in ("", "-e .", "a b", "a@https://x", "../x", "a;rm", "npm:", "npm:a b")
        ),
    ],
)
def test_a_package_has_one_spelling(text: str, parts: tuple[str, str]) -> None:
    assert split_package(text) == parts


def test_a_package_covers_itself_only() -> None:
    assert covers_package("PyYAML==6", "pyyaml")
    assert covers_package("PyYAML==6", "pyyaml==6")
    assert covers_package("PyYAML", "pyyaml==6")  # whoever names no version takes any
    assert not covers_package("PyYAML==5", "pyyaml==6")
    assert not covers_package("pyyaml-x", "pyyaml")
    assert not covers_package("", "")


@pytest.mark.parametrize(
    ("line", "declared"),
    [
        ("import cv2", "opencv-python-headless"),
        ("import cv2", "opencv-contrib-python"),
        ("import psycopg2", "psycopg2"),
        ("import psycopg2", "psycopg2-binary"),
        ("from PIL import Image", "Pillow"),
        ("import yaml", "pyyaml"),
        ("import yaml", "PyYAML==6.0.2"),
        ("import faiss", "faiss-cpu"),
        ("import onnxruntime", "onnxruntime-gpu"),
        ("import flask", "Flask-Cors"),
    ],
)
def test_a_proposal_never_contradicts_what_is_declared(line: str, declared: str) -> None:
    files = {"scripts/a.py": line}

    assert infer_packages("scripts/a.py", files, declared=[declared]) == ()


@pytest.mark.parametrize(
    ("line", "declared"),
    [
        ("import requests", "types-requests"),
        ("import pandas", "pandas-stubs"),
        ("import yaml", "ruamel.yaml"),
        ("import numpy", "npm:numpy"),
    ],
)
def test_a_package_that_does_not_bring_the_module_hides_no_proposal(
    line: str, declared: str
) -> None:
    assert len(infer_packages("scripts/a.py", {"scripts/a.py": line}, declared=[declared])) == 1


def test_the_modules_of_a_declared_package_count_before_its_name() -> None:
    files = {"scripts/a.py": "import cv2\nimport markdown\n"}
    modules = {"vision-kit": {"cv2"}, "markdown-it-py": {"markdown_it"}}

    found = infer_packages(
        "scripts/a.py", files, declared=["vision_kit", "markdown-it-py"], provided=modules.get
    )

    assert [each.package for each in found] == ["Markdown"]


LATER = {
    "scripts/x.py": """
import vault
def convert(path):
    try:
        import lamps_to_shades
    except ImportError:
        sys.exit("pip install lamps-to-shades")
def main():
    import lampshade
    vault.open()
main()
""",
    "scripts/vault.py": """
import vaultlike
def of_windows():
    import win32crypt
def open():
    import lock_like
""",
}


def test_what_only_some_calls_import_does_not_stop_all_of_them() -> None:
    found = infer_packages("scripts/x.py", LATER)

    assert {each.package: each.optional for each in found} == {
        "lampshade": False,
        "vaultlike": False,
        "lamps_to_shades": True,
        "lock_like": True,
    }
