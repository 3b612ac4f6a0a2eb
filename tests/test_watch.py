"""What is told of a notebook that runs where nobody looks at a terminal."""

import time

from propme.runner import watch


def test_a_log_has_a_line_for_each_phase_and_each_minute(capsys, monkeypatch):
    now = 0.0
    monkeypatch.setattr(time, "monotonic", lambda: now)
    shown = watch._Shown("2_generation")  # the output of a test is no terminal
    for at, label, done in (
        (100, "training", 0),
        (130, "training", 300),
        (161, "training", 610),
        (200, "training", 1000),
        (222, "training", 1220),
        (223, "generating", 0),
        (250, "generating", 9),
    ):
        now = at
        note = "9 tokens/s" if done > 1000 else ""
        shown.show({"label": label, "done": done, "total": 1759, "unit": "steps", "note": note})
    shown.show(None)
    shown.close()
    assert capsys.readouterr().out.splitlines() == [
        "  training (1759 steps)",
        "  training: 610 of 1759 steps",
        "  training: 1220 of 1759 steps, 9 tokens/s",
        "  generating (1759 steps)",
    ]


def test_what_has_no_known_end_is_told_so(capsys):
    shown = watch._Shown("1_prompts")
    shown.show({"label": "tokenising", "done": 0, "total": None, "unit": "documents", "note": ""})
    shown.close()
    assert capsys.readouterr().out == "  tokenising (? documents)\n"
