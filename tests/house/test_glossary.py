"""The page of words says what the declarations say."""

from checks import glossary

from onehead import fields
from onehead.aim.words import WORDS


def test_the_page_is_up_to_date():
    text = glossary.PAGE.read_text(encoding="utf-8")
    assert glossary.page(text) == text, "run python -m checks.glossary --write"


def test_every_word_is_on_the_page():
    listed = [said.flat for words in glossary.GROUPS.values() for said in words]
    assert set(WORDS) <= set(listed)


def test_a_changed_declaration_changes_the_page():
    class Other(glossary.Task):
        length: int = fields.word(11, "L", "Tokens | in a sequence.", ge=1)

    line = glossary.table([fields.words_of(Other)["length"]]).splitlines()[-1]
    assert line == "| `length` | L | Tokens \\| in a sequence. | an integer >= 1 | 11 |"
