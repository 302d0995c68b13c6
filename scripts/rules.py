"""Rules of the house that no linter knows, as functions from text to findings; `tests/rules` applies them.

Each takes what it looks at and answers sentences, one a finding, so that a test can plant a violation and see it found.
"""

from __future__ import annotations

import ast
import re
import subprocess
from collections.abc import Iterable, Mapping
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]

MAX_MODULE_LINES = 350
MAX_TEST_MODULE_LINES = 450
MAX_FILE_BYTES = 1024 * 1024

# spelled so that this file is not found by its own rule
_REGISTRIES = ("pypi.o" + "rg", "pythonhosted.o" + "rg", "registry.npmjs.o" + "rg", "deb.debian.o" + "rg")
_MACHINE_PATH = re.compile(
    r"(?<![A-Za-z0-9_.*)}])/(?:wor[k]|far[m]|tm[p]/tools)/|\.librar[y]/|/home/[a-z]+[/\"']"
)
_PINNED = re.compile(r"^([a-z0-9][a-z0-9._-]*)==([^\s;]+)(?:\s*;[^\\]*)?\s*\\$", re.MULTILINE)


def tracked_files() -> list[Path]:
    """Every file that is committed or about to be; all but generated folders where there is no git."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    if listed.returncode == 0 and listed.stdout:
        names = (ROOT / name for name in listed.stdout.split("\0") if name)
    else:
        hidden = (".venv", ".git", ".lingxi")
        names = (path for path in ROOT.rglob("*") if not set(path.relative_to(ROOT).parts) & set(hidden))
    return sorted(path for path in names if path.is_file())


def python_files(*folders: str) -> dict[Path, str]:
    """The text of every tracked Python file below these folders."""
    wanted = [
        path
        for path in tracked_files()
        if path.suffix == ".py" and path.relative_to(ROOT).parts[0] in folders
    ]
    return {path.relative_to(ROOT): path.read_text("utf-8") for path in wanted}


def hosts_and_machine_paths(text: str) -> list[str]:
    """Package registries and paths of somebody's machine: neither belongs into a tree that others clone."""
    found = [f"names the registry {host}" for host in _REGISTRIES if host in text]
    return found + [f"names a path of one machine: {match}" for match in _MACHINE_PATH.findall(text)]


def urls_in_lock(text: str) -> list[str]:
    """A lock holds names, versions and hashes; where they come from is the installer's business."""
    return [line.strip() for line in text.splitlines() if "://" in line]


def pins(lock: str) -> dict[str, str]:
    """Package → version of a lock (the last one, where markers choose between two)."""
    return dict(_PINNED.findall(lock))


def unhashed(lock: str) -> list[str]:
    """Requirements of a lock that no hash follows."""
    blocks = re.split(r"^(?=[a-z0-9])", lock, flags=re.MULTILINE)
    return [block.splitlines()[0] for block in blocks if block.strip() and "--hash=sha256:" not in block]


def environment_reads(source: str) -> list[int]:
    """Lines that read the process environment."""
    lines = []
    for node in ast.walk(ast.parse(source)):
        name = node.attr if isinstance(node, ast.Attribute) else None
        if isinstance(node, ast.ImportFrom) and node.module == "os":
            name = next((a.name for a in node.names if a.name in ("environ", "getenv")), None)
        if name in ("environ", "getenv", "environb"):
            lines.append(getattr(node, "lineno", 0))
    return lines


def calls_of(source: str, module: str, function: str) -> list[int]:
    """Lines that call `module.function`, or `function` after `from module import function`."""
    tree = ast.parse(source)
    imported = any(
        isinstance(node, ast.ImportFrom)
        and node.module == module
        and function in [a.name for a in node.names]
        for node in ast.walk(tree)
    )
    lines = []
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call):
            continue
        called = ast.unparse(node.func)
        if called == f"{module}.{function}" or (imported and called == function):
            lines.append(node.lineno)
    return lines


def literals_with(source: str, pattern: str) -> list[str]:
    """String literals (docstrings aside) that match `pattern`."""
    tree = ast.parse(source)
    docstrings = {
        id(node.body[0].value)
        for node in ast.walk(tree)
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
        and node.body
        and isinstance(node.body[0], ast.Expr)
    }
    return [
        node.value
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant)
        and isinstance(node.value, str)
        and id(node) not in docstrings
        and re.search(pattern, node.value)
    ]


def unused_statements(names: Iterable[str], sources: Iterable[str]) -> list[str]:
    """Statement names (`items/claim`) that no source mentions as a literal."""
    mentioned = {text for source in sources for text in literals_with(source, r"^[a-z_]+/[a-z0-9_]+$")}
    return sorted(set(names) - mentioned)


def too_long(
    files: Mapping[Path, str], allowed: Mapping[str, int], limit: int = MAX_MODULE_LINES
) -> list[str]:
    """Modules over the limit, and exceptions that are not needed any more."""
    lengths = {str(path): text.count("\n") for path, text in files.items()}
    found = [
        f"{path}: {lines} lines, at most {allowed.get(path, limit)}"
        for path, lines in lengths.items()
        if lines > allowed.get(path, limit)
    ]
    return found + [f"{p}: no exception needed" for p in allowed if 0 < lengths.get(p, 0) <= limit]


def loosened_tests(source: str) -> list[str]:
    """Tests that are switched off: `pytest.skip`, `pytest.mark.skipif`, `xfail` and the like."""
    found = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Attribute) and node.attr in ("skip", "skipif", "xfail", "importorskip"):
            text = ast.unparse(node)
            if text.startswith("pytest."):
                found.append(f"line {node.lineno}: {text}")
    return found
