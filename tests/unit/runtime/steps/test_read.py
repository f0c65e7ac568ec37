"""The value of `read` from its journal entry."""

from skillrun.runtime.steps.files import _value


def test_each_file_is_told_under_its_name_and_a_journal_of_before_has_one_text() -> None:
    now = _value({"files": ["a.md", "b.md"], "texts": ["One.", "Two."], "data": {"n": 1}})
    assert now["text"] == "One.\n\nTwo."
    assert now["documents"] == [{"path": "a.md", "text": "One."}, {"path": "b.md", "text": "Two."}]
    assert (now["files"], now["data"], "texts" in now) == (["a.md", "b.md"], {"n": 1}, False)
    before = _value({"files": ["a.md", "b.md"], "text": "One.\n\nTwo."})
    assert before["text"] == "One.\n\nTwo."
    assert before["documents"] == [{"path": "a.md, b.md", "text": "One.\n\nTwo."}]
    assert _value({})["documents"] == [{"path": "", "text": ""}]
