"""Pairs the calls and artifacts of two runs, or of two versions in one run, and computes the differences."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

from skillrun.cli.call_view import titled_blocks
from skillrun.cli.differences import FieldDifference, text_difference, value_differences
from skillrun.store.run_data import RunData
from skillrun.store.run_view import Conversation, RunView
from skillrun.structured_output.values import parse_reply

_HUNK: Final = re.compile(r"@@ -\S+ \+(\d+)\S* @@")
_PART: Final = re.compile("──── (?:(?:system|user|assistant|tool): )?(.+) ────")


@dataclass(frozen=True)
class CallPair:
    """A call in two runs, or two versions of a call in one run. None stands for a call that a run did not make."""

    before: Conversation | None
    after: Conversation | None

    @property
    def either(self) -> Conversation:
        either = self.after or self.before
        assert either is not None
        return either

    @property
    def is_unmatched(self) -> bool:
        return self.before is None or self.after is None

    @property
    def is_same(self) -> bool:
        return not self.is_unmatched and {self.prompt, self.tools, self.reply} <= {"same", ""}

    @property
    def prompt(self) -> str:
        """`same` or `differs`, for the prompts; empty for an unmatched call."""
        return self._difference_label(bool(self.prompt_difference))

    @property
    def tools(self) -> str:
        """`same` or `differs`, for the tool calls and their results; empty if there are no tool calls."""
        has_tools = any(_tool_text(each) for each in (self.before, self.after) if each is not None)
        return self._difference_label(bool(self.tools_difference)) if has_tools else ""

    @property
    def reply(self) -> str:
        return self._difference_label(
            len({_outcome(each) for each in (self.before, self.after) if each is not None}) > 1
        )

    def _difference_label(self, differs: bool) -> str:
        return "" if self.is_unmatched else "differs" if differs else "same"

    @cached_property
    def prompt_difference(self) -> list[str]:
        lines = _prompt_text(self.after).splitlines() if self.after is not None else []
        annotated = []
        for line in self._difference(_prompt_text):
            hunk = _HUNK.fullmatch(line)
            shown = lines[: int(hunk[1]) + 1] if hunk is not None else ()
            parts = [part[1] for each in shown if (part := _PART.fullmatch(each))]
            annotated.append(f"{line} {parts[-1]}" if parts else line)  # the prompt part where the hunk starts
        return annotated

    @cached_property
    def tools_difference(self) -> list[str]:
        return self._difference(_tool_text)

    @cached_property
    def reply_fields(self) -> list[FieldDifference] | None:
        """The fields in which the replies differ; None if a reply is not structured."""
        values = []
        for each in (self.before, self.after):
            last = each.last if each is not None else None
            if last is None or last.reply is None or last.request.schema is None:
                return None
            values.append(parse_reply(last.reply.text, last.request.schema)[0])
        return None if None in values else list(value_differences(*values))

    @cached_property
    def reply_difference(self) -> list[str]:
        return self._difference(_outcome)

    def _difference(self, format_call: Callable[[Conversation], str]) -> list[str]:
        """Return the difference between the texts of both calls; empty for an unmatched call."""
        if self.before is None or self.after is None:
            return []
        return text_difference(format_call(self.before), format_call(self.after))


def _prompt_text(conversation: Conversation) -> str:
    """Return the first prompt as text, with the names of its parts, the model, the tools and the schema.

    Later prompts of the conversation follow from replies and tool results.
    """
    request = conversation.first.request
    lines = [f"model: {request.model}", f"maximum reply tokens: {request.max_tokens}"]
    for title, blocks in titled_blocks(request):
        for name, block in blocks:
            lines += [f"──── {title if name == title else f'{title}: {name}'} ────", block.text]
    lines += [f"tool {tool.name}: {tool.description} {json.dumps(tool.parameters)}" for tool in request.tools]
    if request.schema is not None:
        lines += ["──── reply schema ────", json.dumps(request.schema, indent=2, ensure_ascii=False)]
    return "\n".join(lines)


def _tool_text(conversation: Conversation) -> str:
    lines = []
    for turn in conversation.turns:
        lines += [f"correction request: {turn.asks_again}"] if turn.asks_again else []
        for use in turn.tools:
            arguments = json.dumps(use.call.arguments, ensure_ascii=False)
            lines += [f"{use.call.name} {arguments}", use.result or "(no recorded result)"]
    return "\n".join(lines)


def _outcome(conversation: Conversation) -> str:
    """Return the reply, or the reason why the call has no reply."""
    last = conversation.last
    return last.reply.text if last.reply is not None else f"({last.status}{': ' if last.failed else ''}{last.failed})"


def pair_runs(before: Iterable[Conversation], after: Iterable[Conversation]) -> list[CallPair]:
    """Pair the calls of two runs by path and attempt.

    The pairs are in the order of the second run. Calls that only the first run made come last.
    """
    old, new = ({(each.path, each.attempt): each for each in calls} for calls in (before, after))
    only_old = [CallPair(each, None) for key, each in old.items() if key not in new]
    return [*(CallPair(old.get(key), each) for key, each in new.items()), *only_old]


def pair_versions(several: Iterable[Conversation], version: int) -> list[CallPair]:
    """Pair the last prompt of each call with prompt `version`, or with the previous prompt if `version` is 0.

    Calls with only one prompt are left out.
    """
    by_place: dict[tuple[str, int], dict[int, Conversation]] = {}
    for each in several:
        by_place.setdefault((each.path, each.attempt), {})[each.version] = each
    pairs = []
    for versions in by_place.values():
        last = versions[max(versions)]
        earlier = versions.get(version or last.versions - 1)
        if earlier is not None and earlier is not last:
            pairs.append(CallPair(earlier, last))
    return pairs


@dataclass(frozen=True)
class ArtifactPair:
    """An artifact in two runs, or two versions of an artifact in one run. None stands for a missing artifact."""

    name: str
    before: str | None
    after: str | None

    @property
    def is_same(self) -> bool:
        return self.before == self.after

    @cached_property
    def difference(self) -> list[str]:
        return text_difference(self.before or "", self.after or "")


def pair_artifacts(views: Sequence[RunView], phase: str = "") -> list[ArtifactPair]:
    """Pair the artifacts of two runs by name. If `phase` is given, pair only the artifacts of this phase.

    Raises SkillrunError.
    """
    texts: list[dict[str, str | None]] = [
        {name: view.data.artifacts.text(name) for name in _artifact_names(view.data, phase)} for view in views
    ]
    names = sorted({name for each in texts for name, text in each.items() if text is not None})
    return [ArtifactPair(name, *(each.get(name) for each in texts)) for name in names]


def pair_artifact_versions(view: RunView, phase: str = "", version: int = 0) -> list[ArtifactPair]:
    """Pair the last version of each artifact with version `version`, or with the previous version if `version` is 0.

    If `phase` is given, only the artifacts of this phase are paired. Artifacts with only one version are left out.
    Artifacts of old runs are left out too, because old runs recorded no texts. Raises SkillrunError.
    """
    written: dict[str, list[str]] = {}
    names = _artifact_names(view.data, phase)
    for entry in view.journal.entries("wrote"):
        text = entry.body.get("text")
        if entry.address in names and text is not None and written.get(entry.address, [])[-1:] != [text]:
            written.setdefault(entry.address, []).append(text)
    at = version - 1 if version else -2
    texts_by_name = {name: texts for name, texts in sorted(written.items()) if max(version, 1) < len(texts)}
    return [ArtifactPair(name, texts[at], texts[-1]) for name, texts in texts_by_name.items()]


def _artifact_names(store: RunData, phase: str) -> list[str]:
    """Return the names of a run's artifacts. If `phase` is given, return only the artifacts of this phase."""
    names = store.artifacts.list_names()
    if not phase:
        return names
    summary = store.summaries.find_readable(phase)
    of_phase: Any = summary.record.get("artifacts") or () if summary is not None else ()
    return [name for name in names if name in of_phase]


def call_usage(conversation: Conversation | None) -> tuple[int, int, float | None]:
    """Return the input tokens, the output tokens and the price of a call; zeros for a missing call."""
    if conversation is None:
        return 0, 0, 0
    return conversation.usage.input, conversation.usage.output, conversation.price
