"""Observes a store while workers use it, and computes what must hold at the end.

Database triggers note when each record was written, in which epoch, and when each run was claimed. The server of the
provider logs its requests.
"""

from __future__ import annotations

import json
import re
import threading
import time
from collections import Counter
from collections.abc import Mapping
from hashlib import sha256
from itertools import accumulate
from typing import Any, Final

from skillrun.extensions.workers.postgres.database import Database
from skillrun.extensions.workers.postgres.stored_run import PostgresStore
from tests.servers import openai
from tests.servers.wire import Answer, WireRequest

NAME: Final = re.compile(r"run-\d{4}")
NONCE: Final = re.compile(r"untrusted-[0-9a-f]{8}")  # derived from the text that it encloses
# The sizes of prompts in a summary, which depend on the name of the run.
SIZES: Final = re.compile(rb"^( +[\w ]+): [0-9.]+$", re.MULTILINE)
KEY: Final = re.compile(r"Note ([0-9a-f]{12}), and more\.")
PLAIN: Final = "run-0000"  # replaces the name of any run
WATCH: Final = """
CREATE TABLE watched_records (run bigint, seq integer, epoch bigint, at timestamptz DEFAULT clock_timestamp());
CREATE TABLE watched_epochs (run bigint, epoch bigint, late interval, at timestamptz DEFAULT clock_timestamp());
CREATE FUNCTION watch_record() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
    INSERT INTO watched_records (run, seq, epoch) VALUES (NEW.run, NEW.seq, NEW.epoch); RETURN NULL;
END $$;
CREATE FUNCTION watch_epoch() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
    INSERT INTO watched_epochs (run, epoch, late) VALUES (
        NEW.id, NEW.epoch,
        CASE WHEN OLD.status = 'running' AND NEW.status = 'running' THEN clock_timestamp() - OLD.lease_until END
    ); RETURN NEW;
END $$;
CREATE TRIGGER watch_record AFTER INSERT ON records FOR EACH ROW EXECUTE FUNCTION watch_record();
CREATE TRIGGER watch_epoch BEFORE UPDATE ON runs FOR EACH ROW WHEN (NEW.epoch > OLD.epoch)
    EXECUTE FUNCTION watch_epoch();
"""
_STALE: Final = """
    SELECT count(*) FROM watched_records AS r WHERE EXISTS (
        SELECT FROM watched_epochs AS e WHERE e.run = r.run AND e.epoch > r.epoch AND e.at < r.at
    )
"""
_TAKEN: Final = """
    SELECT count(late), coalesce(extract(epoch FROM max(late)), 0)::float,
           coalesce(extract(epoch FROM percentile_cont(0.5) WITHIN GROUP (ORDER BY late)), 0)::float
    FROM watched_epochs
"""
_COMMITTED: Final = """
    SELECT runs.name, seq, extract(epoch FROM at)::float FROM watched_records JOIN runs ON runs.id = run
"""
_FILES: Final = """
    SELECT runs.name, path, content FROM files JOIN runs ON runs.id = run JOIN blobs ON blobs.sha = files.sha
    WHERE path <> 'state.md' AND path NOT LIKE '.run/%%'
"""


class Provider:
    """A provider whose responses do not depend on the name of the run, with a log of its requests."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self.log: list[tuple[float, str, str]] = []
        self._lock = threading.Lock()

    def answer(self, request: WireRequest) -> Answer:
        text = json.dumps([request.body.get(key) for key in ("instructions", "input")])
        name = NAME.search(text)
        assert name is not None, text
        key = sha256(NONCE.sub("untrusted", text.replace(name[0], PLAIN)).encode()).hexdigest()[:12]
        with self._lock:
            self.log.append((time.time(), name[0], key))
        answer = openai.response(openai.output_text(f"Note {key}, and more."))
        answer.delay = self.seconds
        return answer

    def max_concurrent_calls(self) -> int:
        """The highest number of concurrent calls."""
        starts = [(at, 1) for at, _, _ in self.log]
        ends = [(at + self.seconds, -1) for at, _, _ in self.log]
        return max(accumulate(step for _, step in sorted(starts + ends)), default=0)

    def requests(self, run: str) -> Counter[str]:
        """The number of each request of a run."""
        return Counter(key for _, name, key in self.log if name == run)


def stale_records(database: Database) -> int:
    """The number of records written in a past epoch."""
    return int(database.rows(_STALE)[0][0])


def takeovers(database: Database) -> tuple[int, float, float]:
    """The number of runs claimed from dead workers, and the maximum and median seconds after the lease ended."""
    number, most, median = database.rows(_TAKEN)[0]
    return int(number), float(most), float(median)


def repeated_calls(database: Database, provider: Provider, runs: list[str]) -> tuple[list[str], int]:
    """The calls repeated after their reply was committed, and the number of calls that only arrived later.

    A call is recorded before it is sent. A call of a stopped worker arrives when the worker wakes up. So the provider
    may receive as many requests as were recorded before the reply, and none may be recorded after it.
    """
    committed = {(name, seq): at for name, seq, at in database.rows(_COMMITTED)}
    replies: dict[tuple[str, str], float] = {}
    sent: Counter[tuple[str, str]] = Counter()
    repeated = []
    stored = PostgresStore(database)
    for name in runs:
        if not stored.has(name):
            continue
        journal = stored.open_run(name).read_journal(while_held=True)
        sent_entries = [(entry.address, entry.seq) for entry in journal.entries("sent")]
        for entry in journal.entries("reply"):
            key = KEY.search(entry.body["text"])
            assert key is not None, entry
            replies.setdefault((name, key[1]), committed[name, entry.seq])
            sequence = [seq for address, seq in sent_entries if address == entry.address]
            sent[name, key[1]] += sum(seq < entry.seq for seq in sequence)
            repeated += [
                f"{name}: {entry.address} is recorded as sent after its reply" for seq in sequence if seq > entry.seq
            ]
    for (name, call), recorded in sent.items():
        if provider.requests(name)[call] > recorded:
            repeated.append(
                f"{name}: {call} was received {provider.requests(name)[call]} times, recorded {recorded} times"
            )
    late = sum((name, call) in replies and at > replies[name, call] for at, name, call in provider.log)
    return repeated, late


def files(database: Database) -> Mapping[str, Mapping[str, bytes]]:
    """The artifacts and summaries of every run."""
    found: dict[str, dict[str, bytes]] = {}
    for name, path, content in database.rows(_FILES):
        found.setdefault(name, {})[path] = plain(path, content.replace(name.encode(), PLAIN.encode()))
    return found


def plain(path: str, content: bytes) -> bytes:
    """The content of a file without sizes that depend on the name of the run."""
    return SIZES.sub(rb"\1: -", content) if path.startswith("summaries/") else content


def statuses(database: Database) -> dict[str, Any]:
    return dict(database.rows("SELECT name, status FROM runs"))
