"""Generates valid libraries of any size for the checker.

Every ten files are a workflow, its six phases, two roles and a protocol.
"""

from pathlib import Path
from string import Template

PHASES = ("frame", "explore", "weigh", "decide", "write", "close")

WORKFLOW = Template("""---
name: flow-$group
description: Generated workflow $group, six phases one after the other.
inputs:
  request: string, what to work on
  depth: {type: enum, values: [low, high], default: low, description: how far to go}
state:
  depth: {type: enum, values: [low, high], default: "{{ inputs.depth }}"}
phases:
  frame:
  explore:
  weigh:   {when: "state.depth == 'high'"}
  decide:
  write:
  close:   {after: write}
---
A workflow that exists to be checked.

## Preamble
You are one of several people who work on a request.
""")

PHASE = Template("""---
kind: phase
description: Phase $phase of the generated workflow $group.
steps:
  - id: way
    decide:
      - {when: "inputs.depth == 'high'", then: careful, because: a high depth was asked for}
      - {then: short}
  - id: proposals
    panel: [role-$group-a, "role-$group-b:second"]
    protocol: protocol-$group
    with: {rounds: 2}
  - id: findings
    agent: [role-$group-a, role-$group-b]
    at_least: 1
    output:
      findings(array):
        title: string, a few words
        score: integer 0..100
        evidence?: string
  - id: report
    agent: role-$group-a
    when: findings.replies
    writes: $phase.md
    material: {The findings: "{{ findings.replies }}"}
  - say: "{{ proposals.synthesis | default('nothing') | clip(20) }}"
outputs:
  way: "{{ way.value }}"
  report: "{{ report.text }}"
  key_decisions: [{id: way, decision: "{{ way.because | default(way.value) }}"}]
---
## Acceptance criteria
- Every finding has a title and a score.

## proposals
The request is: {{ inputs.request }}. Propose a {{ way.value }} way to $phase it, as {{ member.role }}.
{% if state.depth == 'high' %}Say what could go wrong, and how it would be noticed.{% endif %}

## findings
What is worth knowing about this synthesis?

{{ proposals.synthesis }}

{% for previous in history %}- round {{ previous.round }}{% endfor %}

## report
Write the report of the phase from the findings.
""")

ROLE = Template("""---
name: role-$group-$letter
description: A generated role.
model: fast
variants:
  first: the one who begins
  second: the one who doubts
---
You look at a request with an open mind, and say plainly what you know and what you only suppose.
""")

PROTOCOL = Template("""---
kind: protocol
description: Generated protocol $group, a proposal and an answer to it.
seats: [proposer, critic]
inputs:
  rounds?: integer 1..3
steps:
  - {id: proposal, agent: "{{ seats.proposer }}"}
  - {id: critique, agent: "{{ seats.critic }}", when: proposal, material: {The proposal: "{{ others(proposal) }}"}}
  - {id: synthesis, agent: "{{ seats.proposer }}", material: {The critique: "{{ others(critique) }}"}}
outputs:
  synthesis: "{{ synthesis.text }}"
---
## proposal
{{ task }}

## critique
What is wrong with it?

## synthesis
Put the two together.
""")


def write(folder: Path, files: int) -> None:
    """Write a library of `files` files, a multiple of ten, below the folder."""
    for group in range(files // 10):
        texts = {
            f"workflows/flow-{group}.md": WORKFLOW.substitute(group=group),
            f"skills/protocols/protocol-{group}.md": PROTOCOL.substitute(group=group),
            **{f"roles/role-{group}-{letter}.md": ROLE.substitute(group=group, letter=letter) for letter in "ab"},
            **{f"skills/flow-{group}/{phase}.md": PHASE.substitute(group=group, phase=phase) for phase in PHASES},
        }
        for name, text in texts.items():
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
