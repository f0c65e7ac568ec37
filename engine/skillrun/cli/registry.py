"""The commands by group: where each is defined, and its line in the help. A workflow cannot have one of these names."""

from types import MappingProxyType
from typing import Final, NamedTuple

VARIABLE: Final = "_SKILLRUN_COMPLETE"  # a completion script sets it to what it asks for, such as `bash_complete`


class CommandEntry(NamedTuple):
    """One command: the place of its definition, its line in the help, and what its first argument names."""

    place: str
    help: str
    first: str = ""  # `runs` or `workflows`: completion offers these without loading the command


# The groups of `skillrun --help`; in each the most used command comes first.
GROUPS: Final = MappingProxyType(
    {
        "Run": {
            "resume": CommandEntry("skillrun.cli.resume:resume", "Resume a run.", "runs"),
            "dev": CommandEntry("skillrun.cli.dev:dev", "Rerun a workflow each time you save a file.", "workflows"),
            "answers": CommandEntry("skillrun.cli.answers:answers", "Answer the questions of a run.", "runs"),
            "questions": CommandEntry("skillrun.cli.questions:questions", "List the open questions of all runs."),
        },
        "Inspect": {
            "runs": CommandEntry("skillrun.cli.runs:runs", "List runs."),
            "show": CommandEntry("skillrun.cli.show:show", "Summarise a run, or show its calls.", "runs"),
            "report": CommandEntry("skillrun.cli.report.command:report", "Write an HTML report of a run.", "runs"),
            "logs": CommandEntry("skillrun.cli.logs:logs", "Show the events of a run.", "runs"),
            "diff": CommandEntry("skillrun.cli.diff:diff", "Compare two runs, or two prompts of one run.", "runs"),
            "sizes": CommandEntry("skillrun.cli.sizes:sizes", "Measure reply lengths, for cost estimates.", "runs"),
        },
        "Write": {
            "init": CommandEntry("skillrun.cli.init:init", "Create a project with an example workflow."),
            "new": CommandEntry("skillrun.cli.new:new", "Create a workflow, phase, protocol or role."),
            "list": CommandEntry("skillrun.cli.listing:listing", "List workflows, protocols and roles."),
            "graph": CommandEntry(
                "skillrun.cli.graph.command:graph", "Draw the phases and steps of a workflow.", "workflows"
            ),
            "eject": CommandEntry("skillrun.cli.eject:eject_command", "Copy a built-in file into the project."),
            "outdated": CommandEntry("skillrun.cli.outdated:outdated", "Compare copied files with the built-in ones."),
            "schema": CommandEntry("skillrun.cli.schema:schema", "Print a file's format as JSON Schema."),
            "hint": CommandEntry("skillrun.cli.hint:hint", "Scan a prompt for risks (editor hook)."),
            "skill": CommandEntry("skillrun.cli.skill:skill", "Print instructions for AI coding assistants."),
            "lsp": CommandEntry("skillrun.cli.lsp:lsp", "Run the language server (started by editors)."),
        },
        "Test": {
            "validate": CommandEntry("skillrun.cli.validate:validate", "Check all files, without calling a model."),
            "test": CommandEntry("skillrun.cli.testing:test", "Run test cases, or compare two versions.", "workflows"),
            "render": CommandEntry("skillrun.cli.render:render", "Print a prompt exactly as it is sent.", "workflows"),
        },
        "Operate": {
            "doctor": CommandEntry("skillrun.cli.doctor:doctor", "Check that this machine is set up."),
            "models": CommandEntry("skillrun.cli.models:models", "Show which model each name selects."),
            "trust": CommandEntry("skillrun.cli.trust:trust", "Review what a project may do, and trust it."),
            "completion": CommandEntry("skillrun.cli.completion:completion", "Print a shell completion script."),
            "submit": CommandEntry("skillrun.cli.submit:submit", "Queue a run for the workers.", "workflows"),
            "worker": CommandEntry("skillrun.cli.work_commands:worker", "Run a worker."),
            "workers": CommandEntry("skillrun.cli.workers:workers", "List workers."),
            "work": CommandEntry("skillrun.cli.work_commands:work", "Execute one queued run in this process.", "runs"),
            "cancel": CommandEntry("skillrun.cli.work_commands:cancel", "Cancel a queued or running run.", "runs"),
            "limits": CommandEntry("skillrun.cli.limits:limits", "Limit parallel calls to a provider."),
            "store": CommandEntry("skillrun.cli.store_commands:store", "Set up, check or prune a store."),
            "export": CommandEntry("skillrun.cli.moving:export", "Copy a run from the store to a folder.", "runs"),
            "import": CommandEntry("skillrun.cli.moving:import_run", "Copy a run from a folder to the store."),
            "edit": CommandEntry("skillrun.cli.working_copies:edit", "Edit a file of a run in the store.", "runs"),
            "pull": CommandEntry("skillrun.cli.working_copies:pull", "Download the files of a run.", "runs"),
            "push": CommandEntry("skillrun.cli.working_copies:push", "Upload changed files of a run.", "runs"),
        },
    }
)
COMMANDS: Final = MappingProxyType({name: entry for group in GROUPS.values() for name, entry in group.items()})
