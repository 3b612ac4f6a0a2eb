"""Keys out of the environment."""

import pytest

from propme.errors import ParameterError
from propme.keys import key_of


@pytest.mark.parametrize("text", ["sk-1_a.b~c=", " sk-1_a.b~c=\r\n", "\tsk-1_a.b~c="])
def test_white_space_around_a_key_is_no_part_of_it(text, monkeypatch):
    monkeypatch.setenv("A_KEY", text)
    assert key_of("A_KEY") == "sk-1_a.b~c="


def test_there_may_be_none(monkeypatch):
    monkeypatch.delenv("A_KEY", raising=False)
    assert key_of("A_KEY") == ""
    monkeypatch.setenv("A_KEY", " \n")
    assert key_of("A_KEY") == ""


@pytest.mark.parametrize("text", ["sk 1", "sk\n1", "sk\x7f1", "skø", "Bearer sk", "sk\u200b"])
def test_what_cannot_be_sent_is_refused_and_not_quoted(text, monkeypatch):
    monkeypatch.setenv("A_KEY", text)
    with pytest.raises(ParameterError, match="the key in A_KEY cannot be sent") as error:
        key_of("A_KEY")
    assert "sk" not in str(error.value)
