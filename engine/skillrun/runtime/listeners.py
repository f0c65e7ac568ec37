"""Listeners that extensions register. A listener receives every event of a run, and may observe requests to models."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

from skillrun import registry
from skillrun.events import Event
from skillrun.models.messages import NULL_LISTENER, AttemptListener, Gateway, Reply, Request
from skillrun.syntax.diagnostics import UsageError


class RunContext(NamedTuple):
    """The data from which an extension opens a listener when a run starts or resumes."""

    name: str
    """The name of the run."""
    environ: Mapping[str, str]


class RunListener:
    """Receives the events of one run. A listener that raises is reported once and then dropped."""

    what = "an extension's record of this run"
    """How a warning refers to this listener."""
    observes_requests = False
    """Whether `on_request` is called with every request before it is sent."""

    def on_event(self, event: Event) -> None: ...

    def on_request(self, address: str, request: Request) -> None: ...

    def close(self) -> None:
        """Release resources. Called once, after the run has ended or paused."""


def open_listeners(context: RunContext, warn: Callable[[str], None]) -> list[RunListener]:
    """Open the listener of every extension. An extension that raises is reported with `warn` and left out."""
    listeners: list[RunListener] = []
    for name in registry.names("listeners"):
        try:
            listener: RunListener | None = registry.load("listeners", name)(context)
        except UsageError as error:  # it could not be loaded
            warn(f"warning: {error}")
            continue
        except Exception as error:  # noqa: BLE001 (code of another package)
            warn(f"warning: the extension `{name}` failed to start: {str(error) or type(error).__name__}")
            continue
        if listener is not None:
            listeners.append(listener)
    return listeners


def close_listeners(listeners: Iterable[RunListener], warn: Callable[[str], None]) -> None:
    """Close every listener. An error is reported with `warn`, since the run has ended and is not affected."""
    for listener in listeners:
        try:
            listener.close()
        except Exception as error:  # noqa: BLE001 (code of another package)
            warn(_stop_warning(listener, error))


def observe_gateway(gateway: Gateway, listeners: Iterable[RunListener], warn: Callable[[str], None]) -> Gateway:
    """Return a gateway that passes each request to the listeners that observe requests."""
    observers = [listener for listener in listeners if listener.observes_requests]
    return ObservedGateway(gateway, observers, warn) if observers else gateway


class ObservedGateway:
    """A gateway that calls `on_request` of each observer before it sends a request.

    An observer that raises is reported with `warn` and not called again. The request is sent in any case.
    """

    def __init__(self, inner: Gateway, observers: Iterable[RunListener], warn: Callable[[str], None]) -> None:
        self._inner, self._observers, self._warn = inner, list(observers), warn

    async def send(self, request: Request, address: str, attempts: AttemptListener = NULL_LISTENER) -> Reply:
        for observer in tuple(self._observers):
            try:
                observer.on_request(address, request)
            except Exception as error:  # noqa: BLE001 (code of another package)
                self._observers.remove(observer)
                self._warn(_stop_warning(observer, error))
        return await self._inner.send(request, address, attempts)

    async def close(self) -> None:
        await self._inner.close()


def _stop_warning(listener: RunListener, error: Exception) -> str:
    return f"warning: {listener.what} stopped: {str(error) or type(error).__name__}"
