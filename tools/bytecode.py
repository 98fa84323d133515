"""Python bytecode for the environments of nox sessions: modules are compiled in one environment,
and linked in the others.

An import of Beam takes 1 s of CPU with bytecode and 4 s without, in each process of a session.
"""

from __future__ import annotations

from pathlib import Path


def get_bytecode_folder(environment: Path) -> Path:
    """Returns the folder for the bytecode of an environment and of the files that its Python runs.

    Python writes bytecode to this folder instead of the folder of the sources.
    """
    return environment.absolute() / "bytecode"


def make_bytecode_variables(environment: Path) -> dict[str, str]:
    """Returns the variables with which Python reads and writes the environment's bytecode.

    Containers often forbid bytecode with ``PYTHONDONTWRITEBYTECODE``.
    """
    return {
        "PYTHONPYCACHEPREFIX": str(get_bytecode_folder(environment)),
        "PYTHONDONTWRITEBYTECODE": "",
    }


def link_bytecode(compiled: Path, environment: Path) -> int:
    """Links the bytecode of a compiled environment for the modules that another environment shares with it.

    uv installs a file as a link to its cache, so both environments have the same file. Python
    compares the file's time and size with the bytecode.

    Returns:
        The number of linked files.
    """
    linked = 0
    for bytecode in compiled.glob("lib/python*/site-packages/**/__pycache__/*.pyc"):
        module = bytecode.name.partition(".")[0] + ".py"
        source = (bytecode.parent.parent / module).relative_to(compiled)
        copy = environment.absolute() / source
        if copy.exists() and copy.samefile(compiled / source):
            link = get_bytecode_folder(environment) / copy.relative_to("/").with_name(bytecode.name)
            link.parent.mkdir(parents=True, exist_ok=True)
            if not link.exists():
                link.hardlink_to(bytecode)
                linked += 1
    return linked
