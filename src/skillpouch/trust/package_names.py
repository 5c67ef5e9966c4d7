"""Names of packages: for imports, in texts that install them; and what installed ones hold."""

import os
import re
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from functools import cache
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

from skillpouch.environment import environments_directory
from skillpouch.signatures.shebang import source_text
from skillpouch.trust.grant import split_package
from skillpouch.untrusted_files import SCRIPT_BYTES, CannotReadError, read_inside

if TYPE_CHECKING:
    from importlib.metadata import Distribution

# The imports that public skills use, and other well-known ones. Of dotted names, the longest that
# matches counts.
_PYTHON = {
    "Bio": "biopython",
    "Crypto": "pycryptodome",
    "Cryptodome": "pycryptodomex",
    "Levenshtein": "python-Levenshtein",
    "MySQLdb": "mysqlclient",
    "OpenGL": "PyOpenGL",
    "OpenSSL": "pyOpenSSL",
    "PIL": "pillow",
    "Xlib": "python-xlib",
    "_cffi_backend": "cffi",
    "attr": "attrs",
    "azure.ai.inference": "azure-ai-inference",
    "azure.core": "azure-core",
    "azure.identity": "azure-identity",
    "azure.keyvault.secrets": "azure-keyvault-secrets",
    "azure.storage.blob": "azure-storage-blob",
    "bs4": "beautifulsoup4",
    "cairo": "pycairo",
    "chembl_webresource_client": "chembl-webresource-client",
    "cv2": "opencv-python",
    "dateutil": "python-dateutil",
    "discord": "discord.py",
    "dns": "dnspython",
    "docx": "python-docx",
    "dotenv": "python-dotenv",
    "ffmpeg": "ffmpeg-python",
    "fitz": "PyMuPDF",
    "flask_cors": "Flask-Cors",
    "flask_sqlalchemy": "Flask-SQLAlchemy",
    "gi": "PyGObject",
    "git": "GitPython",
    "github": "PyGithub",
    "gitlab": "python-gitlab",
    "gnupg": "python-gnupg",
    "google.ads": "google-ads",
    "google.ai.generativelanguage": "google-ai-generativelanguage",
    "google.analytics.admin": "google-analytics-admin",
    "google.analytics.data": "google-analytics-data",
    "google.analytics.data_v1beta": "google-analytics-data",
    "google.api_core": "google-api-core",
    "google.auth": "google-auth",
    "google.cloud.aiplatform": "google-cloud-aiplatform",
    "google.cloud.bigquery": "google-cloud-bigquery",
    "google.cloud.firestore": "google-cloud-firestore",
    "google.cloud.pubsub": "google-cloud-pubsub",
    "google.cloud.pubsub_v1": "google-cloud-pubsub",
    "google.cloud.secretmanager": "google-cloud-secret-manager",
    "google.cloud.speech": "google-cloud-speech",
    "google.cloud.storage": "google-cloud-storage",
    "google.cloud.texttospeech": "google-cloud-texttospeech",
    "google.cloud.translate": "google-cloud-translate",
    "google.cloud.vision": "google-cloud-vision",
    "google.genai": "google-genai",
    "google.generativeai": "google-generativeai",
    "google.oauth2": "google-auth",
    "google.protobuf": "protobuf",
    "google_auth_httplib2": "google-auth-httplib2",
    "google_auth_oauthlib": "google-auth-oauthlib",
    "googleapiclient": "google-api-python-client",
    "grpc": "grpcio",
    "grpc_tools": "grpcio-tools",
    "igraph": "python-igraph",
    "jose": "python-jose",
    "jwt": "PyJWT",
    "kafka": "kafka-python",
    "ldap": "python-ldap",
    "magic": "python-magic",
    "markdown": "Markdown",
    "memcache": "python-memcached",
    "mp_api": "mp-api",
    "mpl_toolkits": "matplotlib",
    "multipart": "python-multipart",
    "mysql.connector": "mysql-connector-python",
    "nacl": "PyNaCl",
    "newspaper": "newspaper3k",
    "odf": "odfpy",
    "paho": "paho-mqtt",
    "pkg_resources": "setuptools",
    "playwright_stealth": "playwright-stealth",
    "pptx": "python-pptx",
    "psycopg2": "psycopg2-binary",
    "pylab": "matplotlib",
    "pymupdf": "PyMuPDF",
    "pythoncom": "pywin32",
    "pywintypes": "pywin32",
    "rapidfuzz": "RapidFuzz",
    "requests_html": "requests-html",
    "requests_oauthlib": "requests-oauthlib",
    "rest_framework": "djangorestframework",
    "ruamel.yaml": "ruamel.yaml",
    "ruamel_yaml": "ruamel.yaml",
    "secretstorage": "SecretStorage",
    "sentence_transformers": "sentence-transformers",
    "serial": "pyserial",
    "skimage": "scikit-image",
    "sklearn": "scikit-learn",
    "slack_bolt": "slack-bolt",
    "slack_sdk": "slack-sdk",
    "slugify": "python-slugify",
    "snowflake.connector": "snowflake-connector-python",
    "socks": "PySocks",
    "speech_recognition": "SpeechRecognition",
    "stable_baselines3": "stable-baselines3",
    "tdc": "PyTDC",
    "telegram": "python-telegram-bot",
    "telethon": "Telethon",
    "tlz": "toolz",
    "torch_geometric": "torch-geometric",
    "tree_sitter": "tree-sitter",
    "unidecode": "Unidecode",
    "usb": "pyusb",
    "vlc": "python-vlc",
    "webview": "pywebview",
    "websocket": "websocket-client",
    "whisper": "openai-whisper",
    "win32api": "pywin32",
    "win32clipboard": "pywin32",
    "win32com": "pywin32",
    "win32con": "pywin32",
    "win32crypt": "pywin32",
    "win32gui": "pywin32",
    "wx": "wxPython",
    "yaml": "PyYAML",
    "youtube_transcript_api": "youtube-transcript-api",
    "yt_dlp": "yt-dlp",
    "zmq": "pyzmq",
}

# Packages whose name is that of their import. For any other import this is only a guess, and an
# attacker may have registered a package under the name in the hope of such guesses.
_SAME = frozenset(
    {
        *("aiohttp", "altair", "anndata", "anthropic", "arviz", "boto3", "chardet", "click"),
        *("cryptography", "datamol", "deepchem", "defusedxml", "django", "docker", "duckdb"),
        *("fastapi", "flask", "geopandas", "gymnasium", "h5py", "httpx", "huggingface_hub"),
        *("imageio", "jinja2", "joblib", "jsonschema", "keyring", "langchain", "lightning"),
        *("litellm", "lxml", "markitdown", "matplotlib", "mcp", "moviepy", "networkx", "nltk"),
        *("numba", "numpy", "openai", "openpyxl", "orjson", "pandas", "paramiko", "patchright"),
        *("pdf2image", "pdfplumber", "platformdirs", "playwright", "plotly", "polars", "psutil"),
        *("psycopg", "pyarrow", "pydantic", "pydicom", "pydub", "pygments", "pymatgen", "pymongo"),
        *("pymoo", "pypdf", "pyperclip", "pytesseract", "pytest", "pytz", "rdkit", "redis"),
        *("regex", "reportlab", "requests", "rich", "scanpy", "scipy", "seaborn", "selenium"),
        *("setuptools", "shapely", "six", "spacy", "sqlalchemy", "starlette", "streamlit"),
        *("stripe", "sympy", "tabulate", "tenacity", "tiktoken", "tomli", "tomlkit", "torch"),
        *("torchvision", "tqdm", "transformers", "trafilatura", "typer", "typing_extensions"),
        *("tzdata", "ujson", "urllib3", "uvicorn", "websockets", "xlrd", "xlsxwriter", "xmltodict"),
        *("PyPDF2", "weasyprint", "wandb", "feedparser", "html5lib", "html2text", "mistune"),
    }
)

# Namespaces that many packages share: without a known name below them, the package is unknown.
SHARED_FOLDERS = frozenset({"google", "google.cloud", "google.analytics", "azure", "ruamel"})

# Modules of an earlier Python, of Python 2, or of the application in which a script runs.
_NEVER_INSTALLED = frozenset(
    {
        *("__future__", "__main__", "asynchat", "asyncore", "audioop", "cgi", "cgitb", "chunk"),
        *("crypt", "distutils", "imghdr", "imp", "lib2to3", "mailcap", "msilib", "nis", "nntplib"),
        *("ossaudiodev", "pipes", "smtpd", "sndhdr", "spwd", "sunau", "telnetlib", "uu", "xdrlib"),
        *("ConfigParser", "HTMLParser", "Queue", "StringIO", "Tkinter", "cPickle", "cStringIO"),
        *("httplib", "urllib2", "urlparse", "__builtin__", "thread", "commands"),
        *("bpy", "bmesh", "mathutils", "maya", "unreal", "hou", "nuke", "arcpy", "idaapi", "lldb"),
        *("gdb", "AppKit", "Foundation", "Quartz", "objc"),
    }
)

# Packages that one system alone can have.
_ONLY_ON = {"pywin32": "win32"}

_NODE = frozenset(
    {
        *("assert", "async_hooks", "buffer", "child_process", "cluster", "console", "constants"),
        *("crypto", "dgram", "diagnostics_channel", "dns", "domain", "events", "fs", "http"),
        *("http2", "https", "inspector", "module", "net", "os", "path", "perf_hooks", "process"),
        *("punycode", "querystring", "readline", "repl", "stream", "string_decoder", "sys"),
        *("test", "timers", "tls", "trace_events", "tty", "url", "util", "v8", "vm", "wasi"),
        *("worker_threads", "zlib"),
    }
)


def is_installed_by_nobody(module: str) -> bool:
    """Tell whether a module is Python's own, or one that no package provides."""
    top = module.partition(".")[0]
    system = _ONLY_ON.get(known_package(module), sys.platform)
    return top in sys.stdlib_module_names or top in _NEVER_INSTALLED or system != sys.platform


def known_package(module: str) -> str:
    """Return the package that is known to provide a module, "" if none is known."""
    parts = module.split(".")
    dotted = (".".join(parts[:length]) for length in range(len(parts), 0, -1))
    found = next((_PYTHON[name] for name in dotted if name in _PYTHON), "")
    return found or (parts[0] if parts[0] in _SAME else "")


def is_part_of_node(module: str) -> bool:
    """Tell whether a module is part of Node.js or another runtime."""
    return module.partition("/")[0] in _NODE


_PIP = r"(?:(?:python3?[ ]-m[ ])?pip3?|uv[ ]pip|uv[ ]tool|pipx|uv|poetry|conda)"
_NPM = r"(?:npm|pnpm|yarn|bun)"
_INSTALL = re.compile(rf"\b(?:{_PIP}|({_NPM}))[ ](?:install|add|i)[ ]([^\n;&|`'\"()#<>]{{1,200}})")
_PACKAGE = re.compile(r"(?:@[\w.-]+/)?[A-Za-z0-9](?:[\w.-]*[A-Za-z0-9])?")
# Words that go on with the sentence after the name of a package.
_PROSE = frozenset({"to", "for", "and", "or", "if", "in", "with", "on", "then", "before", "first"})
_WITH_VALUE = frozenset(
    {*("-r", "-c", "-e", "-t", "-i", "-f", "--requirement", "--constraint", "--editable")}
    | {"--target", "--index-url", "--prefix"}
)
_FILES = (".txt", ".toml", ".whl", ".gz", ".tgz", ".zip", ".json", ".cfg", ".git")


def installed_in(text: str) -> dict[str, str]:
    """Return package → the words that install it, in a text: `pip install x`, `npm install y`."""
    found: dict[str, str] = {}
    for match in _INSTALL.finditer(text):
        prefix = "npm:" if match[1] else ""
        names = _packages_of(match[2].split())
        before = text[text.rfind("\n", 0, match.start()) + 1 : match.start()]
        # After words of a sentence, only the first name is certainly one.
        is_command = not before.strip(" \t$>`!\"'-*").strip() or before.rstrip(" ").endswith("`")
        for name in names if is_command else names[:1]:
            words = f"{match[0].split(' ', 1)[0]} install {name}"
            found.setdefault(f"{prefix}{name}", words)
    return found


_CALLED = re.compile(
    r"`([\w@/.-]+)`[ ](?:(npm|Node)[ ]|Python[ ]|PyPI[ ]|pip[ ])?package\b"
    r"|(?:\b(npm|Node)[ ])?\bpackage[ ]`([\w@/.-]+)`"
)


def called_packages(text: str) -> list[str]:
    """Return what a text calls a package: "the `lamp` package is not installed"."""
    found = [match.groups() for match in _CALLED.finditer(text)]
    return [f"{'npm:' if a or b else ''}{one or two}" for one, a, b, two in found]


@cache
def packages_with_program(program: str) -> tuple[str, ...]:
    """Return the packages in the environment of Skillpouch that bring a program, by their lists."""
    if not Path(sys.executable).with_name(program).exists():
        return ()
    # Imported here: it takes longer than all else that a call imports.
    from importlib.metadata import distributions

    line = re.compile(rf"/bin/{re.escape(program)},|/scripts/{re.escape(program)},")
    found = (each for each in distributions() if line.search(each.read_text("RECORD") or ""))
    return tuple(sorted(each.metadata["Name"] for each in found))


def _packages_of(words: list[str]) -> list[str]:
    found: list[str] = []
    follows_option = False
    for word in words:
        name = _PACKAGE.match(word)
        if word.startswith("-"):
            follows_option = "=" not in word and word in _WITH_VALUE
        elif follows_option:
            follows_option = False
        elif word in _PROSE or name is None or "/" in word.lstrip("@").partition("/")[2]:
            break
        elif not name[0].endswith(_FILES):
            found.append(name[0])
    return found


_REQUIREMENT = re.compile(r"\s*([A-Za-z0-9][\w.-]*)")
_SITES = "*/*/python/lib/python*/site-packages"  # below the folder of environments
_MOST_FILES = 2_000


def name_of(requirement: str) -> str:
    """Return the name of the package in a requirement, "" if there is none."""
    found = _REQUIREMENT.match(requirement)
    return found[1] if found else ""


def modules_brought_by(package: str) -> frozenset[str] | None:
    """Return the top-level modules of a package and of what it requires, by their metadata.

    They are looked for in the environments that were built for skills, and in Skillpouch's own;
    None if the package is in neither.
    """
    for path in (*([site] for site in _sites_with(package)), sys.path):
        if found := _modules_on(path, package):
            return found
    return None


def read_by_packages(packages: Iterable[str], names: Sequence[str]) -> list[str]:
    """Return those of some variables whose names stand in quotes in the code of packages.

    They are looked for in the environments that were built for skills.
    """
    quoted = re.compile(rf"[\"']({'|'.join(map(re.escape, names))})[\"']")
    found = {
        name
        for package in packages
        for text in texts_of_package(split_package(package)[0])
        for name in quoted.findall(text)
    }
    return [name for name in names if name in found]


def texts_of_package(package: str) -> Iterator[str]:
    """Yield the modules of an installed package, without what it requires."""
    from importlib.metadata import distributions

    site = next(_sites_with(package), "") if package and not package.startswith("npm:") else ""
    there = next(iter(distributions(name=package, path=[site])), None) if site else None
    files = (file for file in (there.files or () if there else ()) if file.suffix == ".py")
    for file in islice(files, _MOST_FILES):
        with suppress(CannotReadError):
            yield source_text(read_inside(f"{site}/{file}", site, SCRIPT_BYTES).data, "python")


def _sites_with(package: str) -> Iterator[str]:
    root = environments_directory()
    spelt = package.replace("-", "[-_.]")
    pattern = re.compile(rf"{spelt}-[^-]+\.dist-info\Z", re.IGNORECASE)
    for site in root.glob(_SITES) if root else ():
        try:
            if any(map(pattern.match, os.listdir(site))):
                yield str(site)
        except OSError:  # it was just removed
            continue


def _modules_on(path: list[str], package: str) -> frozenset[str]:
    from importlib.metadata import distributions

    todo, seen, found = [package], set[str](), set[str]()
    while todo:
        name = todo.pop()
        there = None if name in seen else next(iter(distributions(name=name, path=path)), None)
        seen.add(name)
        if there is None:
            continue
        found.update(_top_levels(there))
        required = (each.partition(";") for each in there.requires or ())
        needed = (head for head, _, marker in required if "extra" not in marker)
        todo += [split_package(name_of(head))[0] for head in needed]
    return frozenset(found)


def _top_levels(package: "Distribution") -> Iterator[str]:
    """Yield the modules at the top of a package, by its list of files."""
    for file in package.files or ():
        top = file.parts[0]
        if top.endswith((".dist-info", ".data")) or top in ("..", "__pycache__"):
            continue
        yield top.partition(".")[0]
