"""The commands in groups, with their import paths and help lines. A workflow cannot have the name of a command."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final, NamedTuple

# A completion script sets this variable to an instruction, such as `bash_complete`.
COMPLETION_VARIABLE: Final = "_SKILLRUN_COMPLETE"
AUTHORING: Final = "skillrun.extensions.authoring"
WORKERS: Final = "skillrun.extensions.workers.commands"


class CommandEntry(NamedTuple):
    """A command: its import path, its help line, and how its arguments are completed."""

    import_path: str
    help: str
    completes: str = ""  # `runs` or `workflows`: completion offers these without loading the command
    for_workflow: str = ""  # import path of the function that builds the command for one workflow
    subcommands: Mapping[str, CommandEntry] = MappingProxyType({})
    in_table: bool = True  # if False, `skillrun --help` lists only its name


# The groups of `skillrun --help`; in each the most used command comes first.
GROUPS: Final = MappingProxyType(
    {
        "Run": {
            "resume": CommandEntry("skillrun.cli.resume:resume", "Resume a run.", "runs"),
            "dev": CommandEntry(
                "skillrun.watch.command:dev",
                "Rerun a workflow each time you save a file.",
                "workflows",
                "skillrun.watch.command:dev_command",
            ),
            "answers": CommandEntry("skillrun.cli.answers:answers", "Answer the questions of a run.", "runs"),
            "questions": CommandEntry("skillrun.cli.answers:questions", "List the open questions of all runs."),
        },
        "Inspect": {
            "runs": CommandEntry("skillrun.cli.runs:runs", "List runs."),
            "show": CommandEntry("skillrun.cli.show:show", "Summarise a run, or show its calls.", "runs"),
            "report": CommandEntry(
                "skillrun.extensions.report.command:report", "Write an HTML report of a run.", "runs"
            ),
            "logs": CommandEntry("skillrun.cli.runs:logs", "Show the events of a run.", "runs"),
            "diff": CommandEntry(
                "skillrun.extensions.report.diff:diff", "Compare two runs, or two prompts of one run.", "runs"
            ),
            "sizes": CommandEntry(f"{AUTHORING}.sizes:sizes", "Measure reply lengths, for cost estimates.", "runs"),
        },
        "Write": {
            "init": CommandEntry("skillrun.cli.new:init", "Create a project with an example workflow."),
            "new": CommandEntry("skillrun.cli.new:new", "Create a workflow, phase, protocol or role."),
            "list": CommandEntry("skillrun.cli.listing:listing", "List workflows, protocols and roles."),
            "graph": CommandEntry(
                "skillrun.cli.graph.command:graph", "Draw the phases and steps of a workflow.", "workflows"
            ),
            "eject": CommandEntry(f"{AUTHORING}.eject:eject_command", "Copy a built-in file into the project."),
            "outdated": CommandEntry(
                f"{AUTHORING}.eject:outdated_command", "Compare copied files with the built-in ones."
            ),
            "schema": CommandEntry(
                f"{AUTHORING}.skill:schema", "Print a file's format as JSON Schema.", in_table=False
            ),
            "hint": CommandEntry(f"{AUTHORING}.hint:hint", "Scan a prompt for risks (editor hook).", in_table=False),
            "skill": CommandEntry(
                f"{AUTHORING}.skill:skill", "Print instructions for AI coding assistants.", in_table=False
            ),
            "lsp": CommandEntry(
                "skillrun.extensions.lsp.command:lsp", "Run the language server (started by editors).", in_table=False
            ),
        },
        "Test": {
            "validate": CommandEntry("skillrun.cli.validate:validate", "Check all files, without calling a model."),
            "test": CommandEntry(
                "skillrun.extensions.testing.command:test", "Run test cases, or compare two versions.", "workflows"
            ),
            "render": CommandEntry("skillrun.cli.render:render", "Print a prompt exactly as it is sent.", "workflows"),
        },
        "Operate": {
            "doctor": CommandEntry("skillrun.cli.doctor:doctor", "Check that this machine is set up."),
            "models": CommandEntry("skillrun.cli.doctor:models", "Show which model each name selects."),
            "trust": CommandEntry("skillrun.cli.trust:trust", "Review what a project may do, and trust it."),
            "completion": CommandEntry(
                "skillrun.cli.completion:completion", "Print a shell completion script.", in_table=False
            ),
            "submit": CommandEntry(f"{WORKERS}.submit:submit", "Queue a run for the workers.", "workflows"),
            "worker": CommandEntry(
                f"{WORKERS}.worker:worker",
                "Run a worker, list workers, or limit parallel calls.",
                subcommands={
                    "once": CommandEntry(f"{WORKERS}.worker:once", "Execute one queued run in this process.", "runs"),
                    "list": CommandEntry(f"{WORKERS}.worker:workers", "List workers."),
                    "limits": CommandEntry(f"{WORKERS}.worker:limits", "Limit parallel calls to a provider."),
                },
            ),
            "cancel": CommandEntry(f"{WORKERS}.worker:cancel", "Cancel a queued or running run.", "runs"),
            "store": CommandEntry(
                f"{WORKERS}.store:store",
                "Set up a store, and copy or edit the runs in it.",
                subcommands={
                    "migrate": CommandEntry(f"{WORKERS}.store:migrate", "Create or upgrade the tables of a store."),
                    "check": CommandEntry(f"{WORKERS}.store:check", "Check the connection, and count the runs."),
                    "prune": CommandEntry(f"{WORKERS}.store:prune", "Delete old runs that have ended."),
                    "import": CommandEntry(f"{WORKERS}.store:import_run", "Copy a run from a folder to the store."),
                    "export": CommandEntry(f"{WORKERS}.store:export", "Copy a run from the store to a folder.", "runs"),
                    "pull": CommandEntry(f"{WORKERS}.store:pull", "Download the files of a run.", "runs"),
                    "push": CommandEntry(f"{WORKERS}.store:push", "Upload changed files of a run.", "runs"),
                    "edit": CommandEntry(f"{WORKERS}.store:edit", "Edit a file of a run.", "runs"),
                },
            ),
        },
    }
)
COMMANDS: Final = MappingProxyType({name: entry for group in GROUPS.values() for name, entry in group.items()})
# Former names, each with the command that replaces it. They print a warning in 0.2, and will be removed in 0.3.
OLD_NAMES: Final = MappingProxyType(
    {
        "work": "worker once",
        "workers": "worker list",
        "limits": "worker limits",
        "import": "store import",
        "export": "store export",
        "pull": "store pull",
        "push": "store push",
        "edit": "store edit",
    }
)
RESERVED_NAMES: Final = frozenset({*COMMANDS, *OLD_NAMES})
"""Names that a workflow cannot have."""
