"""Defines the languages that have outlines: the grammar of each language, and the query that finds definitions.

Each grammar is a separate package. In a query, `@holder` marks a definition whose nested definitions are listed too (a
class, a module), and `@leaf` a definition whose content is not searched (a function).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from skillrun.repository.definitions import ending_of


@dataclass(frozen=True)
class Grammar:
    """A grammar: its Python module, the query for definitions, and the module's function that returns the grammar."""

    module: str
    definitions: str
    function: str = "language"


_SCRIPT: Final = """
(class_declaration) @holder
(function_declaration) @leaf
(generator_function_declaration) @leaf
(method_definition) @leaf
(variable_declarator value: [(arrow_function) (function_expression)]) @leaf
(variable_declarator value: (class)) @holder
(assignment_expression right: [(arrow_function) (function_expression)]) @leaf
(assignment_expression right: (class)) @holder
(pair value: [(arrow_function) (function_expression)]) @leaf
"""
_TYPED: Final = f"""{_SCRIPT}
(abstract_class_declaration) @holder
(internal_module) @holder
(module) @holder
(interface_declaration) @leaf
(type_alias_declaration) @leaf
(enum_declaration) @leaf
(function_signature) @leaf
(abstract_method_signature) @leaf
"""
_C: Final = """
(function_definition) @leaf
(type_definition) @leaf
(enum_specifier body: (_)) @leaf
(union_specifier body: (_)) @leaf
"""

PYTHON: Final = Grammar("tree_sitter_python", "(class_definition) @holder (function_definition) @leaf")
JAVASCRIPT: Final = Grammar("tree_sitter_javascript", _SCRIPT)
TYPESCRIPT: Final = Grammar("tree_sitter_typescript", _TYPED, "language_typescript")
TSX: Final = Grammar("tree_sitter_typescript", _TYPED, "language_tsx")
GO: Final = Grammar("tree_sitter_go", "(function_declaration) @leaf (method_declaration) @leaf (type_spec) @leaf")
RUST: Final = Grammar(
    "tree_sitter_rust",
    """
    (impl_item) @holder (trait_item) @holder (mod_item body: (_)) @holder
    (function_item) @leaf (function_signature_item) @leaf (macro_definition) @leaf
    (struct_item) @leaf (enum_item) @leaf (union_item) @leaf (type_item) @leaf
    """,
)
JAVA: Final = Grammar(
    "tree_sitter_java",
    """
    (class_declaration) @holder (interface_declaration) @holder (enum_declaration) @holder
    (record_declaration) @holder (annotation_type_declaration) @leaf
    (method_declaration) @leaf (constructor_declaration) @leaf
    """,
)
C: Final = Grammar("tree_sitter_c", f"{_C} (struct_specifier body: (_)) @leaf")
CPP: Final = Grammar(
    "tree_sitter_cpp",
    f"""{_C}
    (namespace_definition) @holder (class_specifier body: (_)) @holder (struct_specifier body: (_)) @holder
    (field_declaration declarator: (function_declarator)) @leaf
    """,
)
C_SHARP: Final = Grammar(
    "tree_sitter_c_sharp",
    """
    (namespace_declaration) @holder (class_declaration) @holder (struct_declaration) @holder
    (interface_declaration) @holder (record_declaration) @holder
    (enum_declaration) @leaf (delegate_declaration) @leaf
    (method_declaration) @leaf (constructor_declaration) @leaf
    """,
)
RUBY: Final = Grammar("tree_sitter_ruby", "(module) @holder (class) @holder (method) @leaf (singleton_method) @leaf")
PHP: Final = Grammar(
    "tree_sitter_php",
    """
    (class_declaration) @holder (interface_declaration) @holder (trait_declaration) @holder
    (enum_declaration) @holder (function_definition) @leaf (method_declaration) @leaf
    """,
    "language_php",
)
BASH: Final = Grammar("tree_sitter_bash", "(function_definition) @leaf")

_BY_EXTENSION: Final = {
    **dict.fromkeys(("py", "pyi", "pyw"), PYTHON),
    **dict.fromkeys(("js", "jsx", "mjs", "cjs"), JAVASCRIPT),
    **dict.fromkeys(("ts", "mts", "cts"), TYPESCRIPT),
    "tsx": TSX,
    "go": GO,
    "rs": RUST,
    "java": JAVA,
    "c": C,
    **dict.fromkeys(("h", "cc", "cpp", "cxx", "hh", "hpp", "hxx"), CPP),
    "cs": C_SHARP,
    **dict.fromkeys(("rb", "rake", "gemspec"), RUBY),
    "php": PHP,
    **dict.fromkeys(("sh", "bash"), BASH),
}
SUFFIXES: Final = tuple(f".{ending}" for ending in _BY_EXTENSION)
_BY_PROGRAM: Final = {"python": PYTHON, "node": JAVASCRIPT, "ruby": RUBY, "php": PHP, "bash": BASH, "sh": BASH}


def detect_grammar(name: str, content: bytes) -> Grammar | None:
    """Return the grammar for a file; None if its language has no outlines.

    The file's extension decides. For a file without an extension, the program in its `#!` line decides.
    """
    extension = ending_of(name)
    if extension:
        return _BY_EXTENSION.get(extension)
    if not content.startswith(b"#!"):
        return None
    words = content[2:200].partition(b"\n")[0].decode("ascii", "replace").split()
    programs = [word.rpartition("/")[2].rstrip(".0123456789") for word in words]
    return next((_BY_PROGRAM.get(program) for program in programs if program != "env"), None)
