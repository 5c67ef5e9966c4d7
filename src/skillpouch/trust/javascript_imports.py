"""What a JavaScript program imports: packages with their lines, and its own files."""

from skillpouch.signatures.javascript.statements import imported_modules
from skillpouch.signatures.javascript.tokens import read_tokens
from skillpouch.trust.package_names import is_part_of_node
from skillpouch.trust.packages import split_package

# Bundles bring along what they need.
_LONGEST = 120_000
_BUILT_IN = ("node:", "bun:", "deno:", "cloudflare:", "file:", "data:", "http:", "https:", "jsr:")
_NOT_PACKAGES = ("#", "/", "@/", "~/", "$")  # what a build tool or a package itself rewrites


def javascript_packages(text: str) -> tuple[dict[str, int], tuple[str, ...]]:
    """Return package → line, and the relative paths of the program's own modules."""
    if len(text) > _LONGEST:
        return {}, ()
    packages: dict[str, int] = {}
    own = []
    for module in sorted(imported_modules(read_tokens(text))):
        if module.startswith("."):
            own.append(module)
        elif name := _package(module):
            line = text.count("\n", 0, max(0, text.find(module))) + 1
            packages.setdefault(name, line)
    return packages, tuple(own)


def _package(module: str) -> str:
    """Return the package that a module belongs to; "" for what needs none."""
    if module.startswith((*_BUILT_IN, *_NOT_PACKAGES)) or is_part_of_node(module):
        return ""
    words = module.removeprefix("npm:").split("/")
    name = "/".join(words[:2] if module.removeprefix("npm:").startswith("@") else words[:1])
    spelt, _ = split_package(f"npm:{name}")
    return spelt.removeprefix("npm:")
