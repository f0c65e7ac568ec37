"""What is seen from inside a store while workers work on it, and what has to hold of that at the end.

Triggers of the test's own note when each record came, in which epoch, and when each run was taken up. A provider's
server has its own log of what it was asked.
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
from tests.servers.wire import Answer, Asked

NAME: Final = re.compile(r"run-\d{4}")
NONCE: Final = re.compile(r"untrusted-[0-9a-f]{8}")  # made from what it is around
SIZES: Final = re.compile(
    rb"^( +[\w ]+): [0-9.]+$", re.MULTILINE
)  # of prompts, in a summary: the run's name is in them
KEY: Final = re.compile(r"Note ([0-9a-f]{12}), and more\.")
PLAIN: Final = "run-0000"  # stands for the name of any run
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
    """Answers by the request alone, whatever the run is called, and keeps when it was asked what."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self.log: list[tuple[float, str, str]] = []
        self._lock = threading.Lock()

    def answer(self, asked: Asked) -> Answer:
        text = json.dumps([asked.body.get(key) for key in ("instructions", "input")])
        found = NAME.search(text)
        assert found is not None, text
        key = sha256(NONCE.sub("untrusted", text.replace(found[0], PLAIN)).encode()).hexdigest()[:12]
        with self._lock:
            self.log.append((time.time(), found[0], key))
        answer = openai.response(openai.said(f"Note {key}, and more."))
        answer.delay = self.seconds
        return answer

    def at_a_time(self) -> int:
        """The most calls that were being answered in one moment."""
        came = [(at, 1) for at, _, _ in self.log]
        went = [(at + self.seconds, -1) for at, _, _ in self.log]
        return max(accumulate(step for _, step in sorted(came + went)), default=0)

    def asked(self, run: str) -> Counter[str]:
        """What was asked for a run, and how often."""
        return Counter(key for _, name, key in self.log if name == run)


def stale(database: Database) -> int:
    """How many records came in an epoch that had passed."""
    return int(database.rows(_STALE)[0][0])


def taken_up(database: Database) -> tuple[int, float, float]:
    """How many runs were taken up whose holder was gone; seconds after the end of its lease: most, and median."""
    number, most, median = database.rows(_TAKEN)[0]
    return int(number), float(most), float(median)


def asked_again(database: Database, provider: Provider, runs: list[str]) -> tuple[list[str], int]:
    """The calls that were asked after their reply was committed; and how many only arrived after it.

    A call is on record before it goes out. One that its worker had begun before it was stopped arrives once that wakes
    up, and nobody can call it back: so many requests may come as were on record before the reply, and none is put on
    record behind it.
    """
    came = {(name, seq): at for name, seq, at in database.rows(_COMMITTED)}
    replies: dict[tuple[str, str], float] = {}
    sent: Counter[tuple[str, str]] = Counter()
    again = []
    stored = PostgresStore(database)
    for name in runs:
        if not stored.has(name):
            continue
        journal = stored.open_run(name).journal_snapshot()
        sendings = [(entry.address, entry.seq) for entry in journal.entries("sent")]
        for entry in journal.entries("reply"):
            found = KEY.search(entry.body["text"])
            assert found is not None, entry
            replies.setdefault((name, found[1]), came[name, entry.seq])
            of_it = [seq for address, seq in sendings if address == entry.address]
            sent[name, found[1]] += sum(seq < entry.seq for seq in of_it)
            again += [
                f"{name}: {entry.address} is on record as sent behind its reply" for seq in of_it if seq > entry.seq
            ]
    for (name, key), most in sent.items():
        if provider.asked(name)[key] > most:
            again.append(f"{name}: {key} came {provider.asked(name)[key]} times, and is {most} times on record")
    late = sum((name, key) in replies and at > replies[name, key] for at, name, key in provider.log)
    return again, late


def files(database: Database) -> Mapping[str, Mapping[str, bytes]]:
    """The artifacts and summaries of every run."""
    found: dict[str, dict[str, bytes]] = {}
    for name, path, content in database.rows(_FILES):
        found.setdefault(name, {})[path] = plain(path, content.replace(name.encode(), PLAIN.encode()))
    return found


def plain(path: str, content: bytes) -> bytes:
    """A file, but for sizes in which the name of its run counts."""
    return SIZES.sub(rb"\1: -", content) if path.startswith("summaries/") else content


def statuses(database: Database) -> dict[str, Any]:
    return dict(database.rows("SELECT name, status FROM runs"))
