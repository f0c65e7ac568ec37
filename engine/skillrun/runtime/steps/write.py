"""`write`: writes an artifact from the step's section or a template, without a model."""

from __future__ import annotations

from collections.abc import Mapping

from skillrun.definitions.definitions import Step
from skillrun.runtime.errors import StepFailed
from skillrun.runtime.frame import Frame
from skillrun.runtime.scope import frame_names
from skillrun.runtime.steps.writing import write_artifact
from skillrun.store.frontmatter import to_frontmatter


async def execute(step: Step, frame: Frame) -> Mapping[str, object]:
    path = frame.text(step)
    names = frame_names(frame)
    name = frame.text(step, "template")
    if name:
        template = frame.run.program.library.text(name)
        if template is None:
            raise StepFailed(f"the template `{name}` does not exist", frame.at(step))
        text = template.template.render_text(names)
    else:
        prompt = frame.prompts.get(step.id or "")
        text = prompt.template.render_text(names) if prompt is not None else ""
    body = text.strip() + "\n" if text.strip() else ""
    frontmatter = step.values.get("frontmatter")
    if frontmatter is not None:
        data, shape = frontmatter.evaluate(names), frame.shape(step)
        if wrong := shape.check(data)[:5] if shape is not None else ():
            why = "; ".join(f"{error.path}: {error.message}".removeprefix(": ") for error in wrong)
            raise StepFailed(f"the frontmatter of `{path}` does not match the schema: {why}", frame.at(step))
        body = to_frontmatter(data, body)
    return {"path": path, "text": await write_artifact(frame, step, path, body)}
