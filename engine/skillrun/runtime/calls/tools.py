"""The tools of a member: selects them, opens the folder (`repository:`) that they read, and runs tool calls.

The folder must be in the project, unless the user gave its path as an input of type `path`. A call runs once, and its
result is cut to fit the model's window. The tool `Lookup` returns records of earlier phases by id, including settled
ones and those omitted from prompts. A member that has tools also gets this one if its prompt lacks a record.
"""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import accumulate
from pathlib import Path
from typing import Any, Final

from skillrun import registry
from skillrun.definitions.verbs import LOOKUP
from skillrun.events import Notice, ToolUsed
from skillrun.installation import extra_hint, has_outlines
from skillrun.library.settings import secret_names
from skillrun.models.messages import Block, Message, Reply, ToolCall, ToolSpec
from skillrun.replay import TOOL_CALLS, Body, RefusedInDryRun
from skillrun.repository.confined_folder import ConfinedFolder
from skillrun.repository.paths import PathRefused
from skillrun.repository.readable_folder import ReadableFolder, one_line
from skillrun.repository.repository import SKILL_PREFIX, Repository, load_tool, tool_spec
from skillrun.repository.results import ToolError
from skillrun.runtime.calls.member_request import LineRange, MemberRequest, lines_from_tool
from skillrun.runtime.frame import Frame, SeatedMember
from skillrun.runtime.prompts.context import MIN_REPLY_TOKENS
from skillrun.runtime.prompts.shared_prefix import active_references
from skillrun.runtime.run import PhaseRun, Run
from skillrun.scoring.compaction import RecordedEntry, clip, estimate_tokens, list_records
from skillrun.store.files import sha256_of
from skillrun.syntax.diagnostics import SkillrunError, UsageError, sanitize
from skillrun.templates.functions import wrap_untrusted_text
from skillrun.types.schemas import quote_value

INTERRUPTED: Final = "error: the run ended during this tool call; it may have taken effect, and is not repeated"


MOST_REFUSED: Final = 30  # tool calls of one turn that are answered with an error because too many were made
MAX_ID: Final = 200  # characters
MAX_NAME: Final = 128  # characters


async def run_tools(
    phase: PhaseRun,
    member_request: MemberRequest,
    address: str,
    messages: Sequence[Message],
    reply: Reply,
    reads: list[LineRange],
) -> list[Message]:
    """Run the tool calls of a reply, and return a message with the calls and a message with the result of each. Return
    an empty list if `messages` leave no room for any call.

    The results share the room that remains in the window. If they leave no room for a reply, each is cut to an equal
    share.
    """
    calls = _select_calls(member_request, messages, reply)
    if not calls:
        return []
    history = [*messages, Message("assistant", (Block(reply.text),) if reply.text else (), calls)]

    def build_messages(texts: Sequence[str]) -> list[Message]:
        pairs = zip(calls, texts, strict=True)
        return [Message("tool", (Block(wrap_untrusted_text(text)),), call_id=tool.id) for tool, text in pairs]

    def free_room(results: list[Message]) -> int:
        return member_request.room([*history, *results]) - MIN_REPLY_TOKENS

    room = left = free_room(build_messages([""] * len(calls)))
    texts: list[str] = []
    for number, tool in enumerate(calls):
        share = max(0, left) // max(1, min(len(calls), member_request.calls) - number)
        texts.append(await _run_tool(phase, member_request, address, number, tool, share, reads))
        left -= estimate_tokens(texts[-1])
    if more := len(reply.calls) - len(calls):
        texts[-1] += f"\n(further tool calls of this turn, which were not run: {more:,})"
    results = build_messages(texts)
    if free_room(results) < 0:
        results = build_messages([clip(text, max(0, room) // len(texts)) for text in texts])
    return [history[-1], *results]


def _select_calls(member_request: MemberRequest, messages: Sequence[Message], reply: Reply) -> tuple[ToolCall, ...]:
    """Return the calls that the conversation keeps. Long ids and names are shortened. A call is left out if too many
    precede it, or if the window has no room for it."""
    calls = [
        replace(call, id=call.id if len(call.id) <= MAX_ID else sha256_of(call.id)[:32], name=call.name[:MAX_NAME])
        for call in reply.calls[: member_request.calls + MOST_REFUSED]
    ]
    room = member_request.room(messages) - MIN_REPLY_TOKENS - estimate_tokens(reply.text)
    sizes = accumulate(estimate_tokens(str(call.to_dict())) for call in calls)
    return tuple(call for call, size in zip(calls, sizes, strict=True) if size <= room)


async def _run_tool(
    phase: PhaseRun,
    member_request: MemberRequest,
    address: str,
    number: int,
    tool: ToolCall,
    room: int,
    reads: list[LineRange],
) -> str:
    """Return a tool's result of at most `room` tokens, or an error text. A journaled tool call is not run again."""
    offered = [spec.name for spec in member_request.tools]
    if number >= member_request.calls:
        return f"error: at most {member_request.calls} tool calls run in one turn; this one was not run"
    if tool.name not in offered:
        return f"error: you have no tool {quote_value(tool.name)}; available tools: {', '.join(offered)}"
    run, tool_address = phase.run, f"{address}/{tool.id}"
    effect = TOOL_CALLS if tool.name == LOOKUP else TOOL_CALLS._replace(name=load_tool(tool.name).effect)
    body: Body = {"tool": tool.name, "arguments": tool.arguments}

    async def use() -> Body:
        if tool.name == LOOKUP:
            text = look_up(phase, tool.arguments, room)
        else:
            try:
                repository = Repository(partial(_open_folder, phase, member_request, tool.name))
                text = await repository.run(tool.name, tool.arguments, room)
            except UsageError as error:  # the tool of a package failed
                run.emit(Notice(f"warning: {error}"))
                text = f"error: {error.message}"
        return {**body, "result": sanitize(text)}

    unfinished = {**body, "result": INTERRUPTED} if effect.name == "executes" else None
    try:
        result = await run.replay.once(effect, tool_address, tool.fingerprint(), use, unfinished=unfinished)
    except RefusedInDryRun as error:
        return f"error: {error.message}"
    run.emit(ToolUsed(tool_address, phase.name, tool.name, tool.arguments, replayed=result.is_replayed))
    text = str(result.body.get("result", ""))
    if (lines := lines_from_tool(tool, text)) is not None:
        reads.append(lines)
    return text


def _open_folder(phase: PhaseRun, member_request: MemberRequest, tool: str, skill: str = "") -> ReadableFolder:
    """Open the folder of an Agent Skill of the member, or else the repository, if the role has the tool.

    A path without a skill is in the member's only skill if the member cannot read the repository. Raises SkillrunError.
    """
    folders, run = member_request.skill_folders, phase.run
    is_open = bool(phase.names["repository"]) and tool in member_request.repository_tools
    if not skill and is_open:
        return open_repository(run, phase.names["repository"])
    if not skill and len(folders) == 1:
        [skill] = folders
    if skill not in folders:
        paths = ", ".join(f"`{SKILL_PREFIX}{name}/`" for name in folders)
        problem = f"you have no skill {quote_value(skill)} with files" if skill else "you cannot read a repository"
        raise ToolError(f"{problem}; begin the path with {paths}" if paths else problem)
    return ReadableFolder(ConfinedFolder(folders[skill], links=True), withheld_names(run))


MAX_NAMES_SHOWN: Final = 4  # withheld names in the notice
SKILL_TOOLS: Final = ("Read", "List")  # for a member with Agent Skills that have files


def member_skill_folders(frame: Frame, seated: SeatedMember) -> dict[str, Path]:
    """Return the folders of the Agent Skills of the role and the phase that have other files, by name."""
    run, phase = frame.run, frame.phase
    names = [*seated.role.skills, *(each.skill for each in active_references(phase) if each.is_agent_skill)]
    skills = map(run.program.library.agent_skill, names)
    folders = {skill.name: skill.folder for skill in skills if skill is not None and skill.folder is not None}
    for name, folder in folders.items():
        _report_once(run, f"reads: {one_line(os.path.realpath(folder))} (the skill {name})")
    return folders


def member_tools(frame: Frame, seated: SeatedMember, *, has_skill_files: bool = False) -> tuple[ToolSpec, ...]:
    """Return the tools that the role lists, and the tools to read the files of the member's skills, if any.

    Tools that need a folder are left out if no folder is readable. Empty if the model does not support tools.
    """
    run = frame.run
    role_tools = {*seated.role.tools, *(SKILL_TOOLS if has_skill_files else ())}
    if not role_tools or not run.resolve_model(seated.model).tools:
        return ()
    texts = tool_descriptions(run)
    packaged = [name for name in seated.role.tools if name not in texts and name not in registry.BUILT_IN["tools"]]
    specs = []
    for name in (*(name for name in texts if name in role_tools), *packaged):
        if not registry.is_registered("tools", name):  # the checker has warned
            continue
        try:
            tool = load_tool(name)
        except UsageError as error:
            _report_once(run, f"warning: {error}")
            continue
        if frame.phase.names["repository"] or has_skill_files or not tool.needs_repository:
            if tool.effect == "executes":
                _report_once(run, f"executes: models may call the tool {name}")
            specs.append(ToolSpec(**tool_spec(name, texts.get(name, tool.description), tool.parameters)))
    return tuple(specs)


def tool_descriptions(run: Run) -> dict[str, str]:
    """Return the descriptions of tools in `skills/system/tools.md`, keyed by name."""
    text = run.program.library.text("system/tools")
    sections = text.document.sections if text is not None else ()
    return {section.name: section.text.value.strip() for section in sections}


def _report_once(run: Run, text: str, level: str = "info") -> None:
    if text not in run.evaluation.reported:
        run.evaluation.reported.add(text)
        run.emit(Notice(text, level))


def open_repository(run: Run, folder: str) -> ReadableFolder:
    """Open the folder. Raises SkillrunError if it is missing, outside of the project, or withheld."""
    try:
        if is_user_path_outside(run, folder):
            return ReadableFolder(ConfinedFolder(project_folder(run) / folder, links=True), withheld_names(run))
        with open_project(run) as project, project.open_path(project_relative_path(run, folder)) as entry:
            if not entry.is_folder:
                raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR))
            place = project.tree.path / entry.name
            return ReadableFolder(
                ConfinedFolder(place, links=True, descriptor=os.dup(entry.descriptor)),
                withheld_names(run),
            )
    except PathRefused as error:
        raise SkillrunError(f"the repository {error.message}", _outside_folder_hint(run)) from None
    except SkillrunError as error:
        raise SkillrunError(f"the repository {error.message}", error.next_step or _outside_folder_hint(run)) from None
    except OSError as error:
        reason = (error.strerror or "it cannot be read").lower()
        raise SkillrunError(f"the repository {quote_value(folder)} cannot be opened: {reason}") from None


def is_user_path_outside(run: Run, path: str) -> bool:
    """Return whether a path leads outside of the project and was given by the user.

    A path that is inside the project as written counts as inside, even if a link in it leads out of the project.
    """
    folder = project_folder(run)
    outside = not Path(os.path.normpath(folder / path)).is_relative_to(folder)
    return outside and path in user_paths(run)


def resolve_user_path(run: Run, path: str) -> tuple[Path, str] | None:
    """Return the folder of a path, with links resolved, and the name or pattern of the path in this folder.

    Returns None unless the path is, or is inside, a path that leads outside of the project and was given by the user.
    """
    for user_path in user_paths(run):
        if is_user_path_outside(run, user_path):
            place = Path(os.path.realpath(project_folder(run) / user_path))
            if path == user_path:
                return place.parent, place.name
            if path.startswith(f"{user_path.rstrip('/')}/"):
                return place, path[len(user_path.rstrip("/")) + 1 :]
    return None


def open_project(run: Run) -> ReadableFolder:
    """Open the project folder for reading."""
    return ReadableFolder(ConfinedFolder(project_folder(run), links=True), withheld_names(run))


def project_folder(run: Run) -> Path:
    return Path(run.state.project or run.options.project)


def project_relative_path(run: Run, path: str) -> str:
    """Return a path relative to the project if it is an absolute path in the project; any other path unchanged."""
    for base in (project_folder(run), Path(os.path.realpath(project_folder(run)))):
        if path.startswith("/") and Path(path).is_relative_to(base):
            return Path(path).relative_to(base).as_posix()
    return path


def withheld_names(run: Run) -> tuple[str, ...]:
    return secret_names(run.program.library)


def user_paths(run: Run) -> set[str]:
    """Return the paths that the user gave as inputs of the outermost run, and those that this process has fetched.

    They also hold for inline workflows of the run.
    """
    outer = run.outermost
    given = outer.options.given_inputs.matching(outer.state.inputs)
    paths = [field.name for field in outer.program.workflow.inputs if field.type.word == "path"]
    return {*outer.options.fetched_paths, *(str(given[name]) for name in paths if name in given)}


def report_repository(run: Run, folder: str) -> None:
    """Report once which folder models may read, what is withheld, and that source files have no outlines without the
    extra `outline`. Raises SkillrunError if the folder cannot be opened."""
    if not folder or folder in run.evaluation.reported:
        return
    with open_repository(run, folder) as repository:
        run.evaluation.reported.add(folder)
        names = [name for name in withheld_names(run) if not name.startswith("!")]
        some = f"; {len(names)} patterns of secret file names: {', '.join(names[:MAX_NAMES_SHOWN])}, …" if names else ""
        place = one_line(os.path.realpath(repository.tree.path))
        run.emit(Notice(f"reads: {place} (withheld: .git; files that git ignores{some})"))
    if not has_outlines():
        hint = extra_hint("outline")
        text = f"source files have no outlines: the extra `outline` is not installed; install it: {hint}"
        _report_once(run, text, "warn")


def _outside_folder_hint(run: Run) -> str:
    """Return a hint for a folder outside of the project. It omits the path, because the user did not write it."""
    workflow = run.outermost.program.workflow
    name = next((field.name for field in workflow.inputs if field.type.word == "path"), None)
    if name is None:
        return "a folder outside of the project must be given as a path input, and this workflow has no such input"
    flag = f"--{name.replace('_', '-')}"
    return f"give the folder yourself: start again with `skillrun {workflow.name} … {flag} FOLDER`"


MOST: Final = 20  # ids in one call
MOST_TOLD: Final = 60  # known ids in an error
PARAMETERS: Final[Mapping[str, Any]] = {
    "type": "object",
    "properties": {"id": {"type": "string"}},
    "required": ["id"],
    "additionalProperties": False,
}
_WORDS: Final = {"key_decisions": "decision", "open_questions": "question", "risks_identified": "risk"}


def lookup_tool(phase: PhaseRun) -> tuple[ToolSpec, ...]:
    """Return the tool if the phase's latest prompt lacks a record; an empty tuple if it has all of them."""
    dropped = {str(omission["record"].get("id")) for omission in phase.record.prompts.dropped_records}
    if not any(entry.status or entry.id in dropped for entry in recorded_entries(phase)):
        return ()
    text = tool_descriptions(phase.run).get(LOOKUP)
    return () if text is None else (ToolSpec(**tool_spec(LOOKUP, text, PARAMETERS)),)


def recorded_entries(phase: PhaseRun) -> list[RecordedEntry]:
    """Return all records of earlier phases that have an id, oldest first."""
    summaries = ({"phase": name, **data["summary"]} for name, data in phase.names["phases"].items())
    return [entry for entry in list_records(summaries) if entry.id]


def look_up(phase: PhaseRun, arguments: Mapping[str, Any], room: int) -> str:
    """Return the records with the requested ids as text of at most about `room` tokens.

    If no record has any of the ids, the text begins with `error:`.
    """
    given = arguments.get("id")
    if not isinstance(given, str) or not given.strip():
        return "error: `id` must be an id such as `AC-1`, or several separated by commas"
    wanted = list(dict.fromkeys(re.findall(r"[^\s,;]+", given[:2000])))[:MOST]
    known = recorded_entries(phase)
    texts: list[str] = []
    missing: list[str] = []
    for name in wanted:
        records = [entry for entry in known if name.casefold() in (entry.id.casefold(), entry.written_id.casefold())]
        texts += map(_describe, records)
        missing += [] if records else [name]
    if missing:
        ids = list(dict.fromkeys(entry.id for entry in known))
        more = f" and {len(ids) - MOST_TOLD} more" if len(ids) > MOST_TOLD else ""
        there = f"known ids: {', '.join(ids[:MOST_TOLD])}{more}"
        texts.append(f"no record has the id {', '.join(map(quote_value, missing))}; {there}")
    answer = clip("\n\n".join(texts), max(0, room))
    return answer if len(missing) < len(wanted) else f"error: {answer}"


def _describe(entry: RecordedEntry) -> str:
    renamed = f" under the id {entry.written_id}" if entry.written_id != entry.id else ""
    head = f"{entry.id}: {_WORDS[entry.kind]} of {entry.phase}{renamed}{f', {entry.status}' if entry.status else ''}"
    rest = (f"  {key}: {_text(value)}" for key, value in entry.record.items() if key != "id" and value)
    return "\n".join((head, *rest))


def _text(value: Any) -> str:
    return "; ".join(map(str, value)) if isinstance(value, (list, tuple)) else str(value)
