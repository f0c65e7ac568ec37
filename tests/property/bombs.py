"""Templates that would take too much time or memory, by name, and the names they read."""

from __future__ import annotations

from typing import Any

NAMES: dict[str, Any] = {
    "big": "a" * 900_000,
    "wide": "é" * 900_000,
    "words": "ab " * 300_000,
    "table": {f"k-{at}-x": at for at in range(20_000)},
    "alike": [" ".join(f"w{(at * 7 + place * place) % 600}" for place in range(300)) for at in range(500)],
}
BOMBS = {
    "plain work": "{% for a in range(100000) %}{% for b in range(100) %}{{ a }}{% endfor %}{% endfor %}",
    **{
        name: "{% set l = [wide] %}" + "{% set l = l + l %}" * 12 + f"{{{{ l | {name} | length }}}}"
        for name in ("unique", "sort", "max", "list | tojson", "map('upper') | list")
    },
    "groupby": "{% set l = [{'a': wide}] %}" + "{% set l = l + l %}" * 12 + "{{ l | groupby('a') | length }}",
    "tojson": "{% set a = range(90000) %}" + "{% set a = [a] %}" * 200 + "{{ a | tojson(8) | length }}",
    "look-ups": "{% for i in range(90000) %}{{ table.a_b_c | default(1) }}{% endfor %}",
    "look-ups of one": "{% for i in range(90000) %}{{ table.a_b | default(1) }}{% endfor %}",
    "fields": "{% set l = [table] %}" + "{% set l = l + l %}" * 13 + "{{ l | map(attribute='a_b_c') | list | length }}",
    "dedupe": "{{ alike | dedupe(0.6) | length }}",
    "dedupe of nearly equal ones": "{{ alike | dedupe(0.95) | length }}",
    "equal": "{% for i in range(90000) %}{{ big == big[:-1] ~ 'b' }}{% endfor %}",
    "equal texts": "{% set b = big[:-1] ~ 'b' %}{% for i in range(90000) %}{{ big == b }}{{ big < b }}{% endfor %}",
    "in": "{% set l = [big[:-1] ~ 'b'] %}"
    + "{% set l = l + l %}" * 10
    + "{% for i in range(999) %}{{ big in l }}{% endfor %}",
    **{
        name: "{% for i in range(999) %}{{ words | " + name + " }}{% endfor %}"
        for name in ("title | length", "wordcount", "tokens", "clip(10)", "indent(0) | length", "overlap(words ~ i)")
    },
    "sections": "{% for i in range(999) %}{{ section(words, 'x') | default('') }}{% endfor %}",
    "convergence": "{{ convergence([words ~ 1, words ~ 2, big], {'agree': alike, 'disagree': alike, 'high': 1,"
    " 'low': 0, 'agreement_weight': 1, 'overlap_weight': 1}).score }}",
    "patterns": "{% for i in range(99) %}{{ matches('ab' ~ big, ['[ab]*a[ab]{480}' ~ i]) | length }}{% endfor %}",
}
