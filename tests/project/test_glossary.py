"""The glossary agrees with the declarations of the parameters."""

from checks import glossary

from onehead import fields
from onehead.aim.flat_parameters import PARAMETERS


def test_the_page_is_up_to_date():
    text = glossary.PAGE.read_text(encoding="utf-8")
    assert glossary.page(text) == text, "run python -m checks.glossary --write"


def test_every_parameter_is_on_the_page():
    listed = [said.flat for words in glossary.GROUPS.values() for said in words]
    assert set(PARAMETERS) <= set(listed)


def test_a_changed_declaration_changes_the_page():
    class Other(glossary.Task):
        length: int = fields.parameter(11, "L", "Tokens | in a sequence.", ge=1)

    line = glossary.table([fields.parameters_of(Other)["length"]]).splitlines()[-1]
    assert line == "| `length` | L | Tokens \\| in a sequence. | an integer >= 1 | 11 |"
