"""What a refusal must be: an InvalidArgument, one sentence, with the name of the argument and what is allowed."""

import pytest

from onehead.errors import InvalidArgument


def refusal(call, *given, **words):
    """The refusal of a call with wrong arguments."""
    with pytest.raises(InvalidArgument) as caught:
        call(*given, **words)
    sentence = str(caught.value)
    assert sentence.startswith(caught.value.name) and " must be " in sentence and "; got " in sentence
    assert sentence.endswith(".") and "\n" not in sentence
    return caught.value
