"""A separate program that finds definitions for `parser.py`, so that a crash in a grammar ends only this process.

A request is a line of JSON followed by the bytes of a file; the reply is a line of JSON. The program ends when its
input ends. It imports nothing of skillrun, since it is started by file name. The system limits its time and memory.
"""

from __future__ import annotations

import importlib
import json
import resource
import signal
import sys
from contextlib import suppress
from functools import lru_cache
from typing import Any, Final

MEMORY: Final = 1 << 30  # bytes of address space
SECONDS: Final = 2.0  # for one file
MAX_DEFINITIONS: Final = 2_000  # definitions of one file
HEADER: Final = 160  # characters


def main() -> None:
    for kind, limit in ((resource.RLIMIT_AS, MEMORY), (resource.RLIMIT_CORE, 0), (resource.RLIMIT_CPU, 30)):
        with suppress(ValueError, OSError):
            resource.setrlimit(kind, (limit, limit))
    while line := sys.stdin.buffer.readline():
        request = json.loads(line)
        content = sys.stdin.buffer.read(request["bytes"])
        signal.setitimer(signal.ITIMER_REAL, SECONDS)  # SIGALRM has no handler, so the signal ends the process
        reply = _handle_request(request, content)
        signal.setitimer(signal.ITIMER_REAL, 0)
        sys.stdout.buffer.write(json.dumps(reply).encode() + b"\n")
        sys.stdout.buffer.flush()


def _handle_request(request: dict[str, Any], content: bytes) -> dict[str, Any]:
    try:
        parser, query, cursor = _load_parser(request["module"], request["function"], request["definitions"])
    except ImportError:
        return {"missing": True}
    captures = cursor(query).captures(parser.parse(content).root_node)
    nodes = [(node, True) for node in captures.get("holder", ())] + [(node, False) for node in captures.get("leaf", ())]
    nodes.sort(key=lambda pair: (pair[0].start_byte, -pair[0].end_byte))
    definitions: list[tuple[int, int, int, str]] = []
    # the end of each enclosing definition, and whether its nested definitions are listed
    enclosing: list[tuple[int, bool]] = []
    for node, is_holder in nodes:
        while enclosing and node.start_byte >= enclosing[-1][0]:
            enclosing.pop()
        if enclosing and not enclosing[-1][1]:
            continue
        parent = node.parent
        is_decorated = parent is not None and parent.type == "decorated_definition"
        first = (parent if is_decorated else node).start_point[0] + 1
        last = node.end_point[0] + (node.end_point[1] > 0)
        definitions.append((first, max(first, last), len(enclosing), _header(node, content)))
        enclosing.append((node.end_byte, is_holder))
        if len(definitions) == MAX_DEFINITIONS:
            break
    return {"definitions": definitions}


@lru_cache
def _load_parser(module: str, function: str, definitions: str) -> tuple[Any, Any, Any]:
    """Return the parser, the query, and the class of query cursors. Raises ImportError."""
    import tree_sitter

    language = tree_sitter.Language(getattr(importlib.import_module(module), function)())
    return tree_sitter.Parser(language), tree_sitter.Query(language, definitions), tree_sitter.QueryCursor


def _header(node: Any, content: bytes) -> str:
    """Return the part of a definition before its body, on one line."""
    value = node.child_by_field_name("value") or node.child_by_field_name("right") or node
    body = value.child_by_field_name("body")
    end = body.start_byte if body is not None else node.end_byte
    end = min([end, *(child.start_byte for child in node.children if child.type == "comment")])
    text = content[node.start_byte : min(end, node.start_byte + 8 * HEADER)].decode("utf-8", "replace")
    if body is None:
        text = text.split("{", 1)[0] if "{" in text else text.split("\n", 1)[0]
    text = " ".join(text.split()).rstrip(" :={").removesuffix("=>").rstrip().replace("( ", "(").replace(", )", ")")
    return text if len(text) <= HEADER else f"{text[: HEADER - 1]}…"


if __name__ == "__main__":
    main()
