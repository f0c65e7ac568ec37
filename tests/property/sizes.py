"""Projects that are expensive to check, each with a file of about the maximum size, by name.

The largest have a quarter of that size unless SKILLRUN_EXAMPLES is set, because their cost grows linearly.
"""

from __future__ import annotations

import os
from collections.abc import Iterator

ROLE = "---\nname: guide\ndescription: A guide.\n---\nYou are a guide.\n"


SHARE = 1 if "SKILLRUN_EXAMPLES" in os.environ else 4


def phase(steps: str, body: str = "") -> dict[str, str]:
    """A project of one workflow with one phase."""
    workflow = "---\nname: trip\ndescription: A trip.\nphases:\n  pack:\n---\n"
    front = f"---\nkind: phase\ndescription: Packs.\nsteps:\n{steps}\n---\n"
    return {"workflows/trip.md": workflow, "skills/trip/pack.md": front + body, "roles/guide.md": ROLE}


def section(body: str, above: str = "") -> dict[str, str]:
    """A project with one step and its section."""
    return phase("  - {id: a, agent: guide}", f"{above}## a\n{body}\n")


def sets(count: int, written: str, first: str = "{{ 1 }}") -> dict[str, str]:
    """A step for each of the names v0, v1, …; `@` is the previous name."""
    lines = [f"  - set: {{v{at}: {written.replace('@', f'v{at - 1}')}}}" for at in range(1, count)]
    return phase("\n".join([f'  - set: {{v0: "{first}"}}', *lines]))


def nested(levels: int, before: str, within: str) -> str:
    """Steps inside steps, indented."""
    lines = [f"{' ' * 4 * at}  - {before}" for at in range(levels)]
    return "\n".join([*lines, f"{' ' * 4 * levels}  - {within}"])


def workflow(phases: str) -> dict[str, str]:
    text = f"---\nname: trip\ndescription: A trip.\nphases:\n{phases}---\n"
    return {**phase('  - {say: "x"}'), "workflows/trip.md": text}


def bank(body: str) -> dict[str, str]:
    return {"skills/trip/ask.md": f"---\nkind: questions\ndescription: Asks.\n---\n{body}"}


def config(name: str, text: str) -> dict[str, str]:
    return {f"config/{name}.yaml": text}


def lines(count: int, line: str) -> str:
    """Lines in which `@` is replaced by the line number."""
    return "\n".join(line.replace("@", str(at)) for at in range(count))


def types() -> Iterator[tuple[str, dict[str, str]]]:
    yield "types that double in lists", sets(40, '"{{ [@, @] }}"')
    yield "types that double in YAML lists", sets(40, '["{{ @ }}", "{{ @ }}"]')
    yield "types that double in records", sets(40, "{a: '{{ @ }}', b: '{{ @ }}'}", "{{ {'x': 1} }}")
    yield (
        "types that double twice and meet",
        phase(
            "\n".join(
                [
                    "  - set: {a: {x: 1}}",
                    "  - set: {b: {x: 1}}",
                    *["  - set: {@: {x: '{{ @ }}', y: '{{ @ }}'}}".replace("@", name) for name in "ab" * 40],
                    "  - set: {c: '{{ a or b }}'}",
                ]
            )
        ),
    )
    yield "sums that double", section("{% set a=[1] %}" + "{% set a=a+a %}" * 40)
    yield "mappings that double", section("{% set a={'x': 1} %}" + "{% set a={'x': a, 'y': a} %}" * 40)
    yield (
        "repeats inside repeats",
        phase(
            "\n".join(
                [
                    *(f"{' ' * 4 * at}  - at_most: 2\n{' ' * 4 * at}    repeat:" for at in range(18)),
                    f"{' ' * 76}- set: {{x: 1}}",
                ]
            )
        ),
    )
    yield (
        "a loop of nested records",
        phase(
            "  - at_most: 2\n    repeat:\n      - set: {v0: {x: 1}}\n"
            + lines(40, "      - set: {v0: {a: '{{ v0 }}', b: '{{ v0 }}', c@: 1}}")
        ),
    )
    conditional = "1"
    for _ in range(22):
        conditional = f"(x if {conditional} else x).a"
    yield "conditions inside conditions", section("{% set x={'a': 1} %}{{ " + conditional + " }}")
    yield "differences inside differences", section("{% set x=1 %}{{ " + "(" * 22 + "x" + " - x).a" * 22 + " }}")
    yield "a thousand names", phase("  - set:\n" + lines(990, "      v@: '{{ 1 }}'"))
    yield (
        "names that depend on each other",
        phase("  - set: {v0: 1}\n" + "\n".join(f"  - {{when: v{at - 1}, set: {{v{at}: 1}}}}" for at in range(1, 490))),
    )
    yield "names that are all read", phase(lines(900, "  - set: {v@: '{{ 1 }}'}"))


def signs() -> Iterator[tuple[str, dict[str, str]]]:
    for sign in ("{{", "{% x ", "{%-", "{#", "}}", "%}", "{", "{{ '", '{{ "', "{% raw %}", "{{ } ", "{% } "):
        yield f"`{sign}` over and over", section(sign * (190_000 // len(sign)))
        yield f"`{sign}` on lines", section((sign + "\n") * (95_000 // len(sign)))
        yield f"`{sign}` below the limit", section(sign * (90_000 // len(sign)))
    yield "many tags", section("", "".join(f"## s{at}\n" + "{{a}}" * 3_600 + "\n" for at in range(10)))
    yield (
        "many tags that are right",
        section(
            "{% set a=1 %}" + "{{a}}" * 3_600,
            "".join(f"## s{at}\n" + "{% set a=1 %}" + "{{a}}" * 3_600 + "\n" for at in range(9)),
        ),
    )
    yield "one long expression", section("{{ [" + "1," * 45_000 + "] }}")
    yield "one long comparison", section("{{ 1" + " < 1" * 20_000 + " }}")
    yield (
        "one long choice of conditions",
        section("{% if inputs.a %}" + lines(4_000, "{% elif inputs.a@ %}x") + "{% endif %}"),
    )


def headings() -> Iterator[tuple[str, dict[str, str]]]:
    yield "one heading over and over", phase("  - {id: a, agent: guide}", "## x\n" * 38_000)
    yield "headings that differ", phase("  - {id: a, agent: guide}", lines(20_000, "## x@"))
    yield "escaped headings", section("\\## x\n" * 28_000)
    yield "fences", section("```\n~~~\n" * 24_000)
    yield "headings that end in signs", section("## " + "# " * 95_000 + "x")
    yield "headings that end in blanks", section("## " + " " * 190_000 + "x")
    yield "steps without sections", phase(lines(900, "  - {id: a@, agent: guide}"))
    yield (
        "steps and sections that differ",
        phase(lines(900, "  - {id: alpha@, agent: guide}"), lines(900, "## alpa@\nx")),
    )
    yield "more steps than may be", phase(lines(5_000, "  - {id: a@, agent: guide}"))
    yield "more names than may be", phase("  - set:\n" + lines(9_000, "      v@: '{{ 1 }}'"))
    yield (
        "blanks in a type",
        phase('  - id: a\n    agent: guide\n    output: {f: "string x' + " " * 150_000 + 'y"}', "## a\nx\n"),
    )
    yield "steps of one name", phase("  - {id: a, agent: guide}\n" * 900, "## a\nx\n")


def banks() -> Iterator[tuple[str, dict[str, str]]]:
    yield "questions before the first heading", bank(lines(15_000, "- q @") + "\n## g\n- q\n")
    yield "lines of no question", bank("## g\n" + lines(15_000, "stray @"))
    yield "a long question", bank("## g\n- q\n" + "word\n" * 38_000)
    yield "questions", bank("## g\n" + lines(20_000, "- q @"))
    yield "blanks after a dash", bank("## g\n- " + " " * 190_000)
    yield "groups", bank(lines(13_000, "## g@\n- q"))


def workflows() -> Iterator[tuple[str, dict[str, str]]]:
    yield "more phases than may be", workflow(lines(2_000, "  p@: {skill: trip/pack}") + "\n")
    yield "phases in a row", workflow(lines(500, "  p@: {skill: trip/pack}") + "\n")
    yield "phases that nothing follows", workflow(lines(500, "  p@: {skill: trip/pack, after: []}") + "\n")
    yield "phases the wrong way round", workflow(lines(500, "  p@: {skill: trip/pack, after: [p499]}") + "\n")
    yield "phases without files", workflow(lines(20_000, "  p@:") + "\n")
    yield (
        "phases in a circle",
        workflow("".join(f"  p{at}: {{skill: trip/pack, after: [p{(at + 1) % 500}]}}\n" for at in range(500))),
    )
    yield "one that follows all", workflow(
        "  z: {skill: trip/pack, after: [" + ", ".join(f"p{at}" for at in range(499)) + "]}\n"
        + lines(499, "  p@: {skill: trip/pack, after: []}") + "\n"
    )  # fmt: skip
    inputs = (
        "---\nname: trip\ndescription: A trip.\ninputs:\n" + lines(11_000, "  i@: string") + "\nphases:\n  pack:\n---\n"
    )
    yield "inputs", {**phase('  - {say: "x"}'), "workflows/trip.md": inputs}


def yaml() -> Iterator[tuple[str, dict[str, str]]]:
    yield "unknown keys of models", config("models", lines(80_000 // SHARE, "k@: 1"))
    yield "new entries of models", config("models", "aliases:\n" + lines(60_000 // SHARE, "  k@: fast"))
    yield "new tiers", config("models", "tiers:\n" + lines(60_000 // SHARE, "  k@: fast"))
    yield "a separate config", config("own", lines(80_000 // SHARE, "k@: 1"))
    yield (
        "records with different keys",
        {
            **phase("  - {say: '{{ config.a | length }}'}"),
            "config/own.yaml": "a:\n" + lines(60_000 // SHARE, "  - k@: 1"),
            "workflows/trip.md": "---\nname: trip\ndescription: A trip.\nconfig: own\nphases:\n  pack:\n---\n",
        },
    )
    yield "equal keys", {"skills/trip/pack.md": "---\n" + "a:\n" * 63_000 + "---\n"}
    yield "keys of a role", {"roles/guide.md": "---\nname: guide\n" + lines(10_000, "descriptio@: 1") + "\n---\n"}
    yield "keys of a step", phase("  - say: x\n" + lines(15_000, "    k@: 1"))
    yield "brackets", {"skills/trip/pack.md": "---\na: " + "[" * 190_000 + "\n---\n"}
    yield "braces of YAML", config("own", "a: " + "{a: " * 200_000)
    yield "dashes", config("own", "- " * 450_000)
    yield "question marks", config("own", "? " * 450_000)
    yield "a long quote", config("own", 'a: "' + "\\n" * 450_000 + '"')
    yield "a long number", config("own", "a: " + "9" * 900_000)
    yield "folded lines", config("own", "a: >\n" + "  x\n\n" * 150_000)
    yield "closing lines", {"skills/trip/pack.md": "---\n" + " ---\n" * 38_000}
    yield (
        "wide inputs of a shape",
        phase("  - id: a\n    agent: guide\n    output:\n" + lines(9_000, "      f@: string"), "## a\nx\n"),
    )
    yield (
        "values of an enum",
        phase("  - id: a\n    agent: guide\n    output:\n      f(enum): [" + lines(22_000, "v@,") + "]", "## a\nx\n"),
    )
    yield "rows of a decision", phase(
        "  - id: a\n    order: [" + ", ".join(f"v{at}" for at in range(5_000)) + "]\n    decide:\n"
        + lines(900, "      - {then: v@}")
    )  # fmt: skip
    yield (
        "choices of a question",
        phase(
            "  - id: a\n    ask: x\n    default: y\n    choices: [" + ", ".join(f"v{at}" for at in range(22_000)) + "]"
        ),
    )


def patterns() -> Iterator[tuple[str, dict[str, str]]]:
    written = {
        "counted repeats": "(?:(?:(?:a{1000}){1000}){1000}){1000}",
        "a counted class": "[ab]{30000000}",
        "a long literal": "a" * 100_000,
        "a pattern of a megabyte": "(?:a|b)*" * 120_000,
        "groups inside groups": "(" * 300 + "a" + ")" * 300 + "*",
        "alternatives": "|".join(f"a{at}" for at in range(100_000)),
    }
    for name, pattern in written.items():
        yield (
            name,
            {
                **phase("  - {say: \"{{ matches('a' ~ 'b', config.p) | length }}\"}"),
                "config/own.yaml": f"p: {{x: ['{pattern}']}}\n",
                "workflows/trip.md": "---\nname: trip\ndescription: A trip.\nconfig: own\nphases:\n  pack:\n---\n",
            },
        )


CASES = {name: files for part in (types, signs, headings, banks, workflows, yaml, patterns) for name, files in part()}
