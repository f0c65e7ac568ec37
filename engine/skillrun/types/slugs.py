"""Slugs: names of files and runs, made from texts in any script.

A slug consists of lower-case letters, digits and hyphens. Two texts that differ only by case, by accents of Latin
letters, or by Unicode normalization have the same slug, because some file systems take their names for the same.
"""

from __future__ import annotations

import re
import unicodedata
from typing import Final

ASCII_SLUG: Final = re.compile(r"[a-z0-9][a-z0-9-]{0,63}")
MAX_SLUG: Final = 64  # characters
MAX_SLUG_BYTES: Final = 200  # of a file name, which may have 255; the rest is for a number and a suffix
_SOURCE: Final = 1000  # characters of a text that are read


def make_slug(text: str) -> str:
    """Return the text as a slug; empty if it has no letters and digits.

    Letters and digits of all scripts are kept with their marks. Latin letters lose their accents.
    """
    folded = unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", text[:_SOURCE]).casefold()).casefold()
    kept: list[str] = []
    for character in unicodedata.normalize("NFKD", folded):
        last = kept[-1] if kept else "-"
        if character.isalnum():
            kept.append(character)
        elif not unicodedata.category(character).startswith("M"):
            kept.append("-")
        elif not last.isascii():  # the mark of a Latin letter is left out, and so is one without a letter
            kept.append(character)
    name = re.sub("-+", "-", unicodedata.normalize("NFC", "".join(kept))).strip("-")
    return cut_slug(name, MAX_SLUG)


def cut_slug(name: str, length: int) -> str:
    """Return the slug, cut to at most `length` characters and to the bytes of a file name."""
    return name[:length].encode()[:MAX_SLUG_BYTES].decode(errors="ignore").rstrip("-")


def is_slug(name: str) -> bool:
    """Whether a name is a slug: it is short ASCII, or `make_slug` leaves it unchanged."""
    return bool(ASCII_SLUG.fullmatch(name)) or (name != "" and make_slug(name) == name)
