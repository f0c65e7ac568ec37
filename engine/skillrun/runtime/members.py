"""Resolves the written form of a member to a role, a variant and a model."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from skillrun.definitions.definitions import Role
from skillrun.library.lookups import member_models
from skillrun.runtime.errors import StepFailed
from skillrun.runtime.frame import Frame
from skillrun.scoring.compaction import estimate_tokens
from skillrun.types.fields import Member, MemberError, parse_member


@dataclass(frozen=True)
class SeatedMember:
    """A member with its role. `names` are the member's values in templates."""

    member: Member
    role: Role
    names: Mapping[str, Any]

    @property
    def id(self) -> str:
        return self.member.id


async def resolve_members(frame: Frame, several: list[Any]) -> list[SeatedMember]:
    """Pin the models of the members, and return the members in the given order. Raises StepFailed."""
    library = frame.run.program.library
    ids = (member.get("id") if isinstance(member, Mapping) else member for member in several)
    await frame.run.pin_models(name for written in ids for name in member_models(library, str(written)))
    return [resolve_member(frame, member) for member in several]


def resolve_member(frame: Frame, written: Any) -> SeatedMember:
    """Return the member that `written` names. Raises StepFailed.

    `written` is the written form of a member, or a record whose `id` is that form.
    """
    if isinstance(written, Mapping):
        written = written.get("id")
    try:
        member = parse_member(str(written))
    except MemberError as error:
        raise StepFailed(str(error)) from None
    role = frame.run.program.library.role(member.role)
    if role is None:
        raise StepFailed(f"the role `{member.role}` does not exist")
    lens = role.variants.get(member.variant) if member.variant else None
    if member.variant and lens is None:
        raise StepFailed(f"the role `{member.role}` has no variant `{member.variant}`")
    resolved = frame.run.resolve_model(member.model or role.model)
    names: dict[str, object] = {"id": member.id, "role": member.role, "model": resolved.short_name}
    if member.variant:
        names |= {"variant": member.variant, "lens": lens}
    skills = map(frame.run.program.library.agent_skill, role.skills)
    texts = (role.body, lens or "", *(skill.body for skill in skills if skill is not None))
    names |= {
        "lines": len(role.body.splitlines()),
        "tokens": estimate_tokens("\n".join(texts)),
        "skills": list(role.skills),
    }
    return SeatedMember(member, role, names)
