"""Check of refusals: an InvalidArgument with one sentence that names the argument and what is allowed."""

import pytest

from onehead.errors import InvalidArgument


def refusal(call, *args, **keywords):
    """Return the exception of a call with invalid arguments, after checking its sentence."""
    with pytest.raises(InvalidArgument) as caught:
        call(*args, **keywords)
    sentence = str(caught.value)
    assert sentence.startswith(caught.value.name) and " must be " in sentence and "; got " in sentence
    assert sentence.endswith(".") and "\n" not in sentence
    return caught.value
