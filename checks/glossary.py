"""The words of the user on the page `docs/glossary.md`, made from their declarations.

python -m checks.glossary            # say whether the page is up to date
python -m checks.glossary --write    # make its table anew
"""

import sys

from checks import tool
from onehead.aim.task import Ratio
from onehead.aim.training.settings import Method, Variant
from onehead.aim.words import LEARNER, SHAPE, TARGET, TASK
from onehead.fields import Word, words_of
from onehead.sparse.task import Protocol, Task

PAGE = tool.ROOT / "docs" / "glossary.md"
BEGIN, END = "<!-- words: python -m checks.glossary --write -->\n", "<!-- end of words -->\n"

GROUPS: dict[str, list[Word]] = {
    "Attention head: task": [*words_of(Ratio).values(), TARGET, *SHAPE.values(), *TASK.values()],
    "Attention head: learner": list(LEARNER.values()),
    "Attention head: training beyond the theory": [*words_of(Variant).values(), *words_of(Method).values()],
    "Sparse tokens: task": list(words_of(Task).values()),
    "Sparse tokens: protocol": list(words_of(Protocol).values()),
}


def table(words: list[Word]) -> str:
    """One line per word: its name in Python, sweep files and (with dashes) flags, what it is, and what it takes."""
    lines = []
    for said in words:
        default = "" if said.required or said.default is None else said.default
        shown = f"{default:g}" if isinstance(default, float) else str(default)
        lines.append([f"`{said.flat}`", said.symbol, said.sentence, said.allowed, shown])
    return tool.table(["name", "symbol", "what it is", "values", "default"], lines)


def page(text: str) -> str:
    """The page with its tables of words made anew; what is written by hand stays."""
    before, rest = text.split(BEGIN)
    _, after = rest.split(END)
    made = "\n\n".join(f"### {title}\n\n{table(words)}" for title, words in GROUPS.items())
    return f"{before}{BEGIN}\n{made}\n\n{END}{after}"


def main() -> None:
    """Compare, or write."""
    old = PAGE.read_text(encoding="utf-8")
    new = page(old)
    if tool.parser("checks.glossary", __doc__, "its tables anew").parse_args().write:
        PAGE.write_text(new, encoding="utf-8")
    elif new != old:
        sys.exit(f"{PAGE.name} is not what the declarations say; run python -m checks.glossary --write")


if __name__ == "__main__":
    main()
