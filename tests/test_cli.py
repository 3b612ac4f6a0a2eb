"""The command line as a whole."""

import pytest

from propme.cli import main


@pytest.mark.parametrize(
    ("arguments", "command"),
    [
        (["run", "a.yaml", "--dryrun"], "run"),
        (["verify", "outputs/a", "--quick"], "verify"),
        (["index", "info", "folder", "--full"], "index info"),
        (["index", "build", "--inputs", "x"], "index build"),
        (["status"], "status"),
    ],
)
def test_wrong_options_show_the_usage_of_their_own_command(arguments, command, capsys):
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    assert ended.value.code == 2
    told = capsys.readouterr().err
    assert told.startswith(f"usage: propme {command} [-h]")
    assert f"\npropme {command}: error: " in told
