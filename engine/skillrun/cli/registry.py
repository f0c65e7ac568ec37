"""The commands of skillrun: where each stands and its line in the help. A workflow cannot take one of these names."""

from types import MappingProxyType
from typing import Final, NamedTuple

VARIABLE: Final = "_SKILLRUN_COMPLETE"  # in it a completion script says what it asks for: `bash_complete`


class CommandEntry(NamedTuple):
    place: str
    help: str
    first: str = ""  # what its first argument names, `runs` or `workflows`: a shell is told without loading the command


COMMANDS: Final = MappingProxyType(
    {
        "resume": CommandEntry("skillrun.cli.resume:resume", "Go on with a run.", "runs"),
        "runs": CommandEntry("skillrun.cli.runs:runs", "List the runs."),
        "show": CommandEntry("skillrun.cli.show:show", "One run at a glance.", "runs"),
        "logs": CommandEntry("skillrun.cli.logs:logs", "The events of a run.", "runs"),
        "report": CommandEntry("skillrun.cli.report.command:report", "A run as one HTML file.", "runs"),
        "diff": CommandEntry("skillrun.cli.diff:diff", "What differs between two runs, or two prompts of one.", "runs"),
        "answers": CommandEntry("skillrun.cli.answers:answers", "Answer what a run waits for.", "runs"),
        "export": CommandEntry("skillrun.cli.moving:export", "Copy a run from the store into a folder.", "runs"),
        "import": CommandEntry("skillrun.cli.moving:import_run", "Copy a run's folder into the store."),
        "edit": CommandEntry("skillrun.cli.working_copies:edit", "Change a file of a run in the store.", "runs"),
        "pull": CommandEntry("skillrun.cli.working_copies:pull", "Copy a run's files out of the store.", "runs"),
        "push": CommandEntry("skillrun.cli.working_copies:push", "Bring what was changed of them back.", "runs"),
        "submit": CommandEntry("skillrun.cli.submit:submit", "Have workers run a workflow.", "workflows"),
        "cancel": CommandEntry("skillrun.cli.work_commands:cancel", "End a run of the store.", "runs"),
        "worker": CommandEntry("skillrun.cli.work_commands:worker", "Work on runs of the store."),
        "work": CommandEntry("skillrun.cli.work_commands:work", "Work on one run of the store.", "runs"),
        "workers": CommandEntry("skillrun.cli.workers:workers", "Which workers are there."),
        "store": CommandEntry("skillrun.cli.store_commands:store", "Make, bring up to date and check a store."),
        "limits": CommandEntry("skillrun.cli.limits:limits", "Calls at a time to a provider, over all workers."),
        "questions": CommandEntry("skillrun.cli.questions:questions", "What all runs wait for."),
        "sizes": CommandEntry("skillrun.cli.sizes:sizes", "How long the replies of runs were, for estimates.", "runs"),
        "init": CommandEntry("skillrun.cli.init:init", "Make a folder into a project, with an example."),
        "new": CommandEntry("skillrun.cli.new:new", "A workflow, phase, protocol or role to begin with."),
        "skill": CommandEntry("skillrun.cli.skill:skill", "What an assistant has to know to write workflows."),
        "eject": CommandEntry(
            "skillrun.cli.eject:eject_command", "Copy a shipped file into the project, to change it."
        ),
        "outdated": CommandEntry("skillrun.cli.outdated:outdated", "Which shipped files have changed since."),
        "dev": CommandEntry("skillrun.cli.dev:dev", "Run a workflow again on every save.", "workflows"),
        "validate": CommandEntry("skillrun.cli.validate:validate", "Check every file, offline."),
        "test": CommandEntry(
            "skillrun.cli.testing:test", "Run workflows' cases; put two versions side by side.", "workflows"
        ),
        "list": CommandEntry("skillrun.cli.listing:listing", "Workflows, protocols and roles."),
        "graph": CommandEntry("skillrun.cli.graph.command:graph", "Draw the phases and steps of a workflow.", "workflows"),
        "render": CommandEntry("skillrun.cli.render:render", "A prompt exactly as it would be sent.", "workflows"),
        "schema": CommandEntry("skillrun.cli.schema:schema", "The shape of a file or record, as JSON Schema."),
        "hint": CommandEntry("skillrun.cli.hint:hint", "What a prompt hook says about a prompt."),
        "trust": CommandEntry("skillrun.cli.trust:trust", "What this project's files want, and whether they may."),
        "models": CommandEntry("skillrun.cli.models:models", "What each model name means here."),
        "doctor": CommandEntry("skillrun.cli.doctor:doctor", "What is missing on this machine."),
        "lsp": CommandEntry("skillrun.cli.lsp:lsp", "The language server that editors start."),
        "completion": CommandEntry("skillrun.cli.completion:completion", "The completion script of a shell."),
    }
)
