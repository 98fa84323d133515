"""Compares each package's ``public_api.txt`` with the names that other packages, examples and
documents use::

    python -m tools.public_api                # prints the differences; exit status 1 if there are any
    python -m tools.public_api --write        # writes the listings
    python -m tools.public_api --since TAG    # compares release notes with that commit, not with the start of the branch

If a listing changed since the start of the branch, the package's release notes must have changed,
too. The tool imports nothing: it reads names, signatures and uses from source text.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from tools.api_listing import Blocks, format_listing, list_public_names, parse_listing
from tools.api_users import find_package_folders, find_users_by_name

ROOT = Path(__file__).resolve().parent.parent
LISTING = "public_api.txt"


def find_differences(listed: Blocks, used: Blocks, users: dict[str, str]) -> Iterator[str]:
    """Yields the differences between a listing and the names in use.

    Args:
        listed: names in the file.
        used: names in the sources.
        users: one place that uses each name.
    """
    for module, name in sorted(used.keys() - listed.keys()):
        full = f"{module}.{name}".rstrip(".")
        place = next((users[one] for one in sorted(users) if f"{one}.".startswith(f"{full}.")), "")
        yield f"`{full}` is not listed, but used in {place}"
    for module, name in sorted(listed.keys() - used.keys()):
        yield (
            f"`{module}.{name}`".replace(".`", "`")
            + " is listed, but no other package or document uses it"
        )
    for key in sorted(listed.keys() & used.keys()):
        if listed[key] != used[key]:
            yield f"the signature of `{'.'.join(key)}` differs from the listed one"


def find_listing_problems(root: Path, *, rewrite: bool = False) -> Iterator[str]:
    """Yields the problems of the listings of all packages.

    Args:
        root: repository folder.
        rewrite: whether to write the listings; then only uses of private names are problems.
    """
    users = dict(find_users_by_name(root))
    folders = find_package_folders(root)
    for name, listing in list_public_names(root, users).items():
        yield from listing.problems
        path = folders[name].parents[1] / LISTING
        if rewrite:
            text = format_listing(name.replace("_", "-"), listing.blocks)
            path.write_text(text, encoding="utf-8")
            continue
        listed = parse_listing(path.read_text(encoding="utf-8")) if path.exists() else {}
        for said in find_differences(listed, listing.blocks, users):
            yield f"{path.relative_to(root)}: {said}"


def find_packages_without_release_notes(root: Path, since: str) -> Iterator[str]:
    """Yields the packages whose listing changed since a commit without a change of their release notes."""
    for folder in find_package_folders(root).values():
        package = folder.parents[1].relative_to(root)
        if _have_files_changed(root, since, package / LISTING) and not _have_files_changed(
            root, since, package / "changes", package / "CHANGELOG.md"
        ):
            yield f"{package / LISTING} has changed since {since}: say how in a file {package}/changes/+NAME.KIND.md"


def _have_files_changed(root: Path, since: str, *paths: Path) -> bool:
    """Returns True if files differ from the files of a commit, or are new."""
    changed = ("diff", "--name-only", "--diff-filter=AM", since, "--")
    new = ("ls-files", "--others", "--exclude-standard", "--")
    return any(_run_git(root, *command, *map(str, paths)) for command in (changed, new))


def find_base_commit(root: Path) -> str:
    """Returns the commit at which the branch left main; on main, the parent of HEAD; empty without a history."""
    head = _run_git(root, "rev-parse", "HEAD")
    for main in ("origin/main", "main"):
        base = _run_git(root, "merge-base", "HEAD", main)
        if base not in ("", head):
            return base
    return _run_git(root, "rev-parse", "--verify", "--quiet", "HEAD^")


def _run_git(root: Path, *arguments: str) -> str:
    """Returns the standard output of a git command; empty if git fails."""
    command = ("git", "-C", str(root), *arguments)
    return subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip()


def main(arguments: list[str]) -> int:
    """Compares or writes the listings; returns the exit status."""
    parser = argparse.ArgumentParser(description="The public API of each package.")
    parser.add_argument("--write", action="store_true", help="write the listings")
    parser.add_argument("--since", metavar="COMMIT", help="compare release notes with this commit")
    given = parser.parse_args(arguments)
    found = list(find_listing_problems(ROOT, rewrite=given.write))
    if since := given.since or find_base_commit(ROOT):
        found += find_packages_without_release_notes(ROOT, since)
    for line in found:
        print(line)
    if found and not given.write:
        print("`python -m tools.public_api --write` writes the listings.")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
