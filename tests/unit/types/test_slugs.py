"""Slugs keep the letters of all scripts, and are safe names on every file system."""

from __future__ import annotations

import re
import unicodedata

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from skillrun.types.slugs import ASCII_SLUG, MAX_SLUG, MAX_SLUG_BYTES, is_slug, make_slug


@pytest.mark.finding("FX7")
@pytest.mark.parametrize(
    ("text", "slug"),
    [
        ("Dark mode, please!", "dark-mode-please"),
        ("Café", "cafe"),
        ("Straße Ωmega", "strasse-ωmega"),
        ("给倒推引擎 加日志", "给倒推引擎-加日志"),
        ("Email queue 邮件", "email-queue-邮件"),
        ("ログを追加する", "ログを追加する"),
        ("ガイド", "ガイド"),
        ("Добавь тёмный режим", "добавь-тёмный-режим"),
        ("أضف الوضع الداكن", "أضف-الوضع-الداكن"),
        ("हिन्दी में", "हिन्दी-में"),
        ("ภาษาไทย", "ภาษาไทย"),
        ("한국어 요청", "한국어-요청"),
        ("Łódź", "łodz"),
        ("İstanbul", "istanbul"),
        ("ＡＢＣ１２", "abc12"),
        ("🙂🙂", ""),
        ("../..", ""),
        ("-rf .hidden", "rf-hidden"),
        ("", ""),
    ],
)
def test_letters_of_all_scripts_are_kept(text: str, slug: str) -> None:
    assert make_slug(text) == slug


@pytest.mark.finding("FX7")
@given(st.text(max_size=100))
@example("\u0345a")
@example("ǰ" * 80)
@example("𠮷" * 100)
@example("ﷺ" * 30)
def test_a_slug_is_a_safe_name(text: str) -> None:
    slug = make_slug(text)
    assert len(slug) <= MAX_SLUG
    assert len(slug.encode()) <= MAX_SLUG_BYTES
    assert not slug.startswith(("-", "."))
    assert not slug.endswith("-")
    assert not re.search(r"[\s/\\:.]", slug)
    assert slug.isprintable()
    if slug:
        assert is_slug(slug)


@pytest.mark.finding("FX7")
@given(st.text(max_size=60))
def test_texts_that_a_file_system_takes_for_the_same_have_one_slug(text: str) -> None:
    for form in ("NFC", "NFD"):
        assert make_slug(unicodedata.normalize(form, text)) == make_slug(text)
    slug = make_slug(text)
    assert slug == unicodedata.normalize("NFC", slug)
    assert make_slug(slug.upper()) == make_slug(slug)


@pytest.mark.finding("FX7")
@given(st.text(st.characters(max_codepoint=127), max_size=60))
def test_an_ascii_text_has_an_ascii_slug(text: str) -> None:
    assert not make_slug(text) or ASCII_SLUG.fullmatch(make_slug(text))
