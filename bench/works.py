"""The measured works, each with its subjects, its figures, and the targets for skillrun."""

import asyncio
import statistics
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from bench import cases, database, libraries, plans, process
from bench.environment import program
from bench.keystroke import FILES
from bench.process import Subject

OURS = "skillrun"
MODEL_LIBRARIES = {"anthropic", "openai", "pydantic_ai"}


@dataclass(frozen=True)
class Target:
    """An upper or lower bound on a subject's median, in the unit of the figure or relative to another subject."""

    bound: float
    subject: str = OURS
    of: str | None = None
    word: str = "target"
    least: bool = False

    def shown(self) -> str:
        bound = f"{'at least' if self.least else 'at most'} {self.bound:.3g}"
        return f"{self.word}: {self.subject} {bound}" + (f" × {self.of}" if self.of else "")

    def reached(self, medians: Mapping[str, float]) -> tuple[float, bool] | None:
        """The value compared with the target, and whether it meets it; None if it was not measured."""
        if self.subject not in medians or (self.of and self.of not in medians):
            return None
        value = medians[self.subject] / (medians[self.of] if self.of else 1)
        return value, value >= self.bound if self.least else value <= self.bound


@dataclass(frozen=True)
class Figure:
    """One figure of a work, in the unit that the table shows."""

    name: str
    unit: str
    targets: tuple[Target, ...] = ()


@dataclass(frozen=True)
class Work:
    """A work and how it is measured: `measure` returns a subject's figures of one repetition, by name."""

    name: str
    title: str
    subjects: tuple[Subject, ...]
    figures: tuple[Figure, ...]
    measure: Callable[[Subject], dict[str, float]]
    repetitions: int = 5
    steady: bool = False  # gives the same figures every time, so it runs once
    seeded: bool = False  # each repetition is a different case, so a failure does not stop the others


def peer(name: str, module: str, variant: str = "") -> Subject:
    return Subject(name, (program("python"), "-m", f"bench.peers.{module}"), variant)


SKILLRUN = Subject(OURS, (sys.executable, "-m", "bench.ours"))
ON_POSTGRES = Subject("skillrun, Postgres", SKILLRUN.command, "postgres")
FLOOR = peer("floor", "floor")
LANGGRAPH = peer("LangGraph", "langgraph")
BURR = peer("Burr", "burr")
DBOS = peer("DBOS", "dbos")
ENGINES = (SKILLRUN, FLOOR, LANGGRAPH, BURR, DBOS)


def chain(subject: Subject) -> dict[str, float]:
    with process.scratch() as folder:
        return {"a call": process.run(subject, "chain", folder, "--calls", "200").seconds / 200 * 1e6}


def store(subject: Subject) -> dict[str, float]:
    """The same chain on a store; the transactions per call are those of 200 additional calls."""

    def chain(calls: int) -> tuple[float, int]:
        with database.database() as url, process.scratch() as folder:
            seconds = process.run(subject, "chain", folder, "--calls", str(calls)).seconds
            return seconds, database.transactions(url)

    seconds, transactions = chain(200)
    if not subject.variant:
        return {"a call": seconds / 200 * 1e6}
    return {"a call": seconds / 200 * 1e6, "transactions": (chain(400)[1] - transactions) / 200}


def many(subject: Subject) -> dict[str, float]:
    """The figures of a separate program on an empty database."""
    with database.database():
        return process.read_figures([*subject.command, subject.variant])


def fan_out(subject: Subject) -> dict[str, float]:
    with process.scratch() as folder:
        figures = process.run(subject, "fan_out", folder, "--calls", "1000", "--delay", "0.1")
    return {"time": figures.seconds, "peak memory": figures.peak_bytes / 1e6}


def resume(subject: Subject) -> dict[str, float]:
    with process.scratch() as folder:
        process.run_until_killed(subject, "chain", folder, "--calls", "200", "--kill-after", "150")
        figures = process.run(subject, "chain", folder, "--calls", "200", "--resume")
    new = [number for number in figures.asked if number >= 150]
    if len(new) != 50 or figures.first_call is None:
        raise process.SubjectFailed(f"{len(new)} new calls were made instead of 50")
    result = {
        "first call": figures.first_call - figures.process_started,
        "calls repeated": float(len(figures.asked) - len(new)),
    }
    if subject == SKILLRUN:
        result["model libraries"] = float(len(MODEL_LIBRARIES.intersection(figures.modules)))
    return result


def again(subject: Subject) -> dict[str, float]:
    """How many of 100 parallel calls a second process makes after each of four failures in the first."""
    common = ("--calls", "100", "--delay", "0.04", "--staggered")  # slow enough for a shared disk

    def count_calls(options: tuple[str, ...], *first: str, is_killed: bool = False) -> float:
        with process.scratch() as folder:
            (process.run_until_killed if is_killed else process.run)(subject, "again", folder, *common, *first)
            return float(len(process.run(subject, "again", folder, *common, "--resume", *options).asked))

    return {
        "fails early": count_calls((), "--fail", "49"),
        "fails last": count_calls((), "--fail", "49", "--fail-last"),
        "edited": count_calls(("--edit", "49")),
        "killed": count_calls((), "--kill-after", "50", is_killed=True),
    }


def disk(subject: Subject) -> dict[str, float]:
    def kilobytes(calls: int) -> float:
        with process.scratch() as folder:
            process.run(subject, "chain", folder, "--calls", str(calls), "--reply-bytes", "2048")
            return process.bytes_in(folder) / calls / 1024

    first = kilobytes(200)
    return {"a call": first, "growth": kilobytes(800) / first} if subject == SKILLRUN else {"a call": first}


def start_up(subject: Subject) -> dict[str, float]:
    return {"time": process.seconds_of([*subject.command]) * 1e3}


def validate(subject: Subject) -> dict[str, float]:
    def seconds(files: int) -> float:
        with process.scratch() as folder:
            libraries.write(folder, files)
            return process.seconds_of([*subject.command, str(folder)])

    few, hundred, thousand = seconds(10), seconds(100), seconds(1000)
    per_file = (hundred - few) / 90
    return {"100 files": hundred, "1,000 files": thousand, "growth": (thousand - few) / 990 / per_file}


def hundred_cases(subject: Subject) -> dict[str, float]:
    with process.scratch() as folder:
        cases.write(folder, 100, "rapid")
        return {"time": process.seconds_of([*subject.command], folder)}


def report(subject: Subject) -> dict[str, float]:
    """The report of a plan on the scripted model. Its size grows with the prompt and reply of every call."""
    with process.scratch() as folder:
        figures = asyncio.run(plans.plan("complete", subject.seed, folder, embedded=False))
        target = folder / "report.html"
        command = [*subject.command, str(folder / "runs" / "run"), "--output", str(target)]
        seconds = process.seconds_of(command, folder)
        return {"calls": figures["calls"], "time": seconds, "size": target.stat().st_size / 1e6}


def save(subject: Subject) -> dict[str, float]:
    with process.scratch() as folder:
        return {"time": process.run(subject, "dev", folder, "--calls", "40").seconds * 1e3}


def run_program(subject: Subject) -> dict[str, float]:
    """The figures that a separate program prints for a variant."""
    return process.read_figures([*subject.command, subject.variant])


def plan(subject: Subject) -> dict[str, float]:
    """A plan on the scripted model; the number of the repetition is part of the request."""
    figures = process.read_figures([*subject.command, subject.variant, "--seed", str(subject.seed)])
    if figures["status"] != "completed":
        raise process.SubjectFailed(f"{figures['status']}: {figures['reason']}")
    figures["served from cache"] = 100 * figures["cached"] / max(1, figures["input"])
    return {name: figures[name] for name in ("calls", "input", "output", "served from cache", "rounds", "minutes")}


def sessions(subject: Subject) -> dict[str, float]:
    """A design session on the embedded model; the number of the repetition is its seed."""
    figures = process.read_figures([*subject.command, subject.variant, "--seed", str(subject.seed)])
    if figures["status"] != "completed":
        raise process.SubjectFailed(f"{figures['status']}: {figures['reason']}")
    return {name: figures[name] for name in ("calls", "rounds", "input", "read anew", "saved", "minutes")}


def noise(subject: Subject) -> dict[str, float]:
    """A plan on the embedded model. Its end is printed at once, because each takes minutes."""
    figures = plan(subject)
    print(f"  {subject.name}, seed {subject.seed}: completed in {figures['minutes']:.1f} min", flush=True)
    return figures


def modes(*names: str, embedded: bool = False) -> tuple[Subject, ...]:
    program = (sys.executable, "-m", "bench.plans", *(["--embedded"] if embedded else []))
    return tuple(Subject(name, program, name) for name in names)


def kinds(*names: str) -> tuple[Subject, ...]:
    return tuple(Subject(name, (sys.executable, "-m", "bench.sessions"), name) for name in names)


def command(*words: str) -> Subject:
    path = Path(sys.executable).with_name(words[0]) if words[0] in {OURS, "python"} else Path(program(words[0]))
    return Subject(" ".join(words), (str(path), *words[1:]))


def completion(*words: str) -> Subject:
    """The call that a shell makes when Tab is pressed after these words."""
    environment = ("_SKILLRUN_COMPLETE=bash_complete", f"COMP_WORDS={' '.join(words)} ", f"COMP_CWORD={len(words)}")
    return Subject(f"Tab after {' '.join(words)}", ("env", *environment, *command(OURS).command))


WORKS = (
    Work(
        "chain",
        "chain of 200 calls, d = 0, durable",
        ENGINES,
        (Figure("a call", "µs", (Target(1 / 2, of="LangGraph"), Target(1 / 3, of="LangGraph", word="aim"))),),
        chain,
    ),
    Work(
        "store",
        "chain of 200 calls, d = 0, durable, on one Postgres that syncs every commit",
        (SKILLRUN, ON_POSTGRES, peer("DBOS, Postgres", "dbos", "postgres")),
        (
            Figure("a call", "µs", (Target(1 / 2, ON_POSTGRES.name, of="DBOS, Postgres"),)),
            Figure("transactions", "a call"),
        ),
        store,
    ),
    Work(
        "workers",
        "workers on a Postgres that syncs every commit: runs of two calls, scripted",
        (Subject(OURS, (sys.executable, "-m", "bench.many"), "workers"),),
        (
            Figure("jobs", "per second, two workers of five runs"),
            Figure("start", "ms from submit to the first call, the median of 20, a warm worker", (Target(100),)),
            Figure("slowest start", "ms"),
            Figure("memory", "MB of an idle worker after its jobs", (Target(80),)),
            Figure("queries", "per second of an idle worker", (Target(2),)),
        ),
        many,
        repetitions=3,
    ),
    Work(
        "queue",
        "100,000 runs queued and 1,000,000 finished, medians of 50, without the disk's sync",
        (Subject(OURS, (sys.executable, "-m", "bench.many"), "queue"),),
        (
            Figure("sweep", "ms, of the runs that are due", (Target(5),)),
            Figure("claim", "ms, of one run", (Target(5),)),
            Figure("fetch", "ms, of one job by Procrastinate", (Target(5),)),
        ),
        many,
        repetitions=1,
    ),
    Work(
        "fan-out",
        "1,000 calls at once, d = 0.1 s, durable",
        ENGINES,
        (Figure("time", "s", (Target(0.6, of="LangGraph"),)), Figure("peak memory", "MB", (Target(80),))),
        fan_out,
    ),
    Work(
        "resume",
        "resume of a run of 200 calls, killed (kill -9) after 150",
        (*ENGINES, peer("LangGraph, default durability", "langgraph", "async")),
        (
            Figure("first call", "s", (Target(0.4),)),
            Figure("calls repeated", "", (Target(0),)),
            Figure("model libraries", "imported", (Target(0),)),
        ),
        resume,
    ),
    Work(
        "again",
        "100 parallel calls: how many calls a second process makes to finish after call 50 failed or was edited",
        (
            SKILLRUN,
            LANGGRAPH,
            peer("LangGraph, node cache", "langgraph", "cached"),
            DBOS,
            peer("DBOS, child workflows", "dbos", "children"),
            BURR,
        ),
        (
            Figure("fails early", "calls after it failed while half of the others were under way", (Target(1),)),
            Figure("fails last", "calls after it failed when all others had been answered", (Target(1),)),
            Figure("edited", "calls after all were answered and its prompt was edited", (Target(1),)),
            Figure("killed", "calls after kill -9 when half were answered", (Target(50),)),
        ),
        again,
        repetitions=3,
    ),
    Work(
        "disk",
        "disk space of a chain of 200 calls with replies of 2 KB",
        (*ENGINES, peer("LangGraph, growing state", "langgraph", "growing")),
        (Figure("a call", "KB", (Target(8),)), Figure("growth", "× from 200 to 800 calls", (Target(1.1),))),
        disk,
        steady=True,
    ),
    Work(
        "start-up",
        "start-up of the command line",
        (
            command("skillrun", "--help"),
            command("skillrun", "list"),
            completion("skillrun", "show"),
            completion("skillrun", "plan", "--mode"),
            command("python", "-c", "pass"),
            command("pre-commit", "--version"),
            command("nox", "--version"),
            command("check-jsonschema", "--version"),
        ),
        (
            Figure(
                "time",
                "ms",
                (Target(150, "skillrun --help"), Target(150, "skillrun list"), Target(150, "Tab after skillrun show")),
            ),
        ),
        start_up,
    ),
    Work(
        "validate",
        "`skillrun validate` on generated libraries",
        (Subject(OURS, command("skillrun", "validate").command),),
        (
            Figure("100 files", "s"),
            Figure("1,000 files", "s", (Target(1.5),)),
            Figure("growth", "× the time a file takes, from 100 to 1,000 files", (Target(1.25),)),
        ),
        validate,
    ),
    Work(
        "cases",
        "`skillrun test` on 100 cases of `plan` in rapid mode, of seven phases and about eight calls each",
        (Subject(OURS, command("skillrun", "test").command),),
        (Figure("time", "s", (Target(10),)),),
        hundred_cases,
    ),
    Work(
        "report",
        "`skillrun report` on a plan in complete mode, with documents of 450 words",
        (Subject(OURS, command("skillrun", "report").command),),
        (Figure("calls", ""), Figure("time", "s", (Target(3),)), Figure("size", "MB", (Target(2),))),
        report,
    ),
    Work(
        "dev",
        "a save in `skillrun dev`, 40 calls in the journal, no calls to make",
        (SKILLRUN,),
        (Figure("time", "ms", (Target(200),)),),
        save,
    ),
    Work(
        "save",
        "from a save to the result that `skillrun dev` shows: a process, 40 calls in the journal, no calls to make",
        (
            Subject("a chain of 40 calls", (sys.executable, "-m", "bench.saves"), "chain"),
            Subject("`plan`, standard mode, 4 rounds", (sys.executable, "-m", "bench.saves"), "plan"),
        ),
        (
            Figure("time", "ms", (Target(100, "a chain of 40 calls"),)),
            Figure("processor", "ms of the processor's time"),
        ),
        run_program,
        repetitions=3,
    ),
    Work(
        "keystroke",
        "from a keystroke in an editor to the problems from `skillrun lsp`, 100 generated and all shipped files",
        tuple(Subject(name, (sys.executable, "-m", "bench.keystroke"), name) for name in FILES),
        (
            Figure("median", "ms of 20", tuple(Target(150, name) for name in FILES)),
            Figure("slowest", "ms of 20"),
            Figure("first", "ms from the start of the server to the first problems"),
        ),
        run_program,
    ),
    Work(
        "records",
        "checks of the records that a resumed run reads (state, summaries, journal), by the types of their fields",
        (
            Subject(OURS, (sys.executable, "-m", "bench.records"), "fields"),
            Subject("pydantic models", (sys.executable, "-m", "bench.records"), "pydantic"),
        ),
        (Figure("loading", "ms of processor time"), Figure("a reply", "µs of processor time")),
        run_program,
    ),
    Work(
        "plan",
        "`skillrun plan` on the scripted model with documents of 450 words, five requests",
        modes("rapid", "standard", "advanced", "complete"),
        (
            Figure("calls", ""),
            Figure("input", "tokens"),
            Figure("output", "tokens"),
            Figure("served from cache", "% of the input, by one that keeps every prefix"),
        ),
        plan,
        seeded=True,
    ),
    Work(
        "society",
        "`skillrun implementation-plan` on three scripted models with documents of 450 words, five requests",
        modes("single-model", "multi-model", "multi-model-deep"),
        (
            Figure("calls", ""),
            Figure("input", "tokens"),
            Figure("output", "tokens"),
            Figure("served from cache", "% of the input, by one that keeps every prefix"),
        ),
        plan,
        seeded=True,
    ),
    Work(
        "sessions",
        "`skillrun design-session` on the embedded model: two specialists, roles of 110 lines, three rounds",
        kinds("fresh", "persistent"),
        (
            Figure(
                "read anew",
                "tokens of the input that the model's cache did not have, by its own counters",
                (Target(0.7, "persistent", of="fresh"),),
            ),
            Figure("saved", "tokens, by the run's record"),
            Figure("input", "tokens"),
            Figure("calls", ""),
            Figure("rounds", ""),
            Figure("minutes", ""),
        ),
        sessions,
        repetitions=1,
        seeded=True,
    ),
    Work(
        "noise",
        "`skillrun plan` on the embedded model, a seed for each repetition (minutes each: --only noise --repeat N)",
        modes("standard", "complete", embedded=True),
        (
            Figure(
                "served from cache",
                "% of the input, by the model's own counters",
                (Target(60, "standard", least=True),),
            ),
            Figure("calls", ""),
            Figure("input", "tokens"),
            Figure("output", "tokens"),
            Figure("rounds", ""),
            Figure("minutes", ""),
        ),
        noise,
        repetitions=1,
        seeded=True,
    ),
)


@dataclass(frozen=True)
class Results:
    """The results of the repetitions of one work: values by figure and subject, and the subjects that failed."""

    work: Work
    values: dict[str, dict[str, list[float]]]
    failures: dict[str, str]

    def medians(self, figure: Figure) -> dict[str, float]:
        return {name: statistics.median(values) for name, values in self.values[figure.name].items()}


def measure(work: Work, repetitions: int | None) -> Results:
    """Alternate between the subjects, so that a busy moment of the machine affects all of them."""

    results = Results(work, {figure.name: {} for figure in work.figures}, {})
    for number in range(1, 2 if work.steady else (repetitions or work.repetitions) + 1):
        for subject in work.subjects:
            if subject.name in results.failures:
                continue
            try:
                figures = work.measure(replace(subject, seed=number))
            except (process.SubjectFailed, OSError) as error:
                failed = f"{subject.name}, seed {number}" if work.seeded else subject.name
                results.failures[failed] = str(error)
                continue
            for name in results.values.keys() & figures.keys():
                results.values[name].setdefault(subject.name, []).append(figures[name])
    return results
