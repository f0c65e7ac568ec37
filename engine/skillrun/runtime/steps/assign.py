"""`set`: assigns names in order; one declared in `state` is the workflow's, any other is local."""

from __future__ import annotations

from skillrun.language.files.definitions import Step
from skillrun.language.templates.absent import Absent
from skillrun.language.templates.expressions import ABSENT
from skillrun.language.types.fields import coerce
from skillrun.language.types.given import projected
from skillrun.runtime.errors import StepFailed
from skillrun.runtime.run import Frame


async def act(step: Step, frame: Frame) -> None:
    from skillrun.runtime.scope import frame_names

    declared = (
        {field.name.replace("-", "_"): field for field in frame.run.program.workflow.state}
        if frame.task is None
        else {}
    )
    for name, value in (step.main.entries if step.main and step.main.entries else {}).items():
        found = value.evaluate(frame_names(frame))
        field = declared.get(name.replace("-", "_"))
        if field is None:
            frame.bind(name, found)
            continue
        if isinstance(found, Absent):
            frame.open.state[field.name] = ABSENT
            frame.open.sets[field.name] = None
        else:
            coerced = coerce(
                field,
                projected(field, found),
                {"config": frame.names.get("config"), "inputs": frame.names.get("inputs")},
            )
            if coerced.error:
                raise StepFailed(
                    f"state.{coerced.error.removeprefix('`')}".replace("state.", "`state.", 1), frame.at(step)
                )
            for text in coerced.warnings:
                frame.open.warn(text)
            frame.open.state[field.name] = coerced.value
            frame.open.sets[field.name] = coerced.value
        frame.open.version += 1
        if field.name == "mode":
            features = frame.run.features(frame.open.state)
            frame.names["features"].update({name: feature.on for name, feature in features.items()})
            frame.names["config"].update(frame.run.config(frame.open.state))
