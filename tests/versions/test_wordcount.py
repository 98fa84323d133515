"""Tests that Beam's wordcount returns the correct counts if it is submitted as by a user."""

from __future__ import annotations

import collections
import re
import subprocess
import sys
import sysconfig
from pathlib import Path

from job_server import JobServerProcess

TEXT = Path(sysconfig.get_path("stdlib"))


def words(files: list[Path]) -> collections.Counter[str]:
    """Returns the words of texts, split as Beam's wordcount splits them."""
    texts = (file.read_text(encoding="utf-8") for file in files)
    return collections.Counter(word for text in texts for word in re.findall(r"[\w\']+", text))


def counted(prefix: Path) -> collections.Counter[str]:
    """Returns the counts that wordcount wrote."""
    found: collections.Counter[str] = collections.Counter()
    for file in prefix.parent.glob(f"{prefix.name}-*-of-*"):
        for line in file.read_text(encoding="utf-8").splitlines():
            word, _, count = line.rpartition(": ")
            found[word] += int(count)
    return found


def test_beam_wordcount_counts_words_exactly(server: JobServerProcess, tmp_path: Path) -> None:
    output = tmp_path / "counts"
    arguments = ("--input", str(TEXT / "a*.py"), "--output", str(output))
    endpoint = ("--runner=PortableRunner", f"--job_endpoint={server.address}")
    command = (sys.executable, "-P", "-m", "apache_beam.examples.wordcount", *arguments, *endpoint)
    done = subprocess.run(command, capture_output=True, text=True, timeout=180, check=False)
    expected = words(sorted(TEXT.glob("a*.py")))
    assert expected.total() > 10_000
    assert counted(output) == expected, done.stderr[-2000:]
