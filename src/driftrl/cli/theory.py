"""``driftrl theory``: a window from the bound or from data, and an audit of σ."""

import importlib

from driftrl.errors import unknown_name

# Name, module, one line of help, as for the commands themselves.
QUESTIONS: dict[str, tuple[str, str]] = {
    "choose": (
        "driftrl.cli.theory_choose",
        "H and w from the regret bound, with its trade-off drawn",
    ),
    "recommend": (
        "driftrl.cli.theory_recommend",
        "w from a run's own data, with the evidence",
    ),
    "audit": (
        "driftrl.cli.theory_audit",
        "was the uncertainty of a run calibrated, and where did it break",
    ),
}


def main(argv: list[str]) -> int:
    """Answer one of the questions."""
    if not argv or argv[0] in ("-h", "--help", "help"):
        rows = [f"  {name:<10} {line}" for name, (_, line) in QUESTIONS.items()]
        print("\n".join(["usage: driftrl theory QUESTION …", "", *rows, ""]))
        print("driftrl theory QUESTION --help tells more.")
        return 0
    if argv[0] not in QUESTIONS:
        raise unknown_name("question of driftrl theory", argv[0], QUESTIONS)
    module, _ = QUESTIONS[argv[0]]
    return importlib.import_module(module).main(argv[1:])
