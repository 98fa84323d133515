"""A process that writes a journal until it is killed: ``writer_to_kill.py FOLDER``.

For each line on standard input, the process forks a writer and prints its process ID. The writer
appends entries that count upwards, three per transaction, with occasional snapshots. After each
transaction the writer appends the number of acknowledged entries to the file ``acknowledged``. The
process also prints a line when the writer exits.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from beam_runner_storage.journal.store import JournalStore


def write(folder: Path) -> None:
    journal = JournalStore(folder, durable=False).get_journal("job")
    recovered = journal.read_committed_data()
    count = int(recovered.snapshot or b"0") + len(recovered.entries)
    acknowledged = os.open(folder / "acknowledged", os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    while True:
        if count % 75 == 0:
            journal.store_snapshot(b"%d" % count)
        journal.append_entries([b"%d" % number for number in range(count, count + 3)])
        count += 3
        os.write(acknowledged, b"%d\n" % count)


def main() -> None:
    for _ in sys.stdin:
        pid = os.fork()
        if not pid:
            write(Path(sys.argv[1]))
        print(pid, flush=True)
        os.waitpid(pid, 0)
        print("ended", flush=True)


main()
