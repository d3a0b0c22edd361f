"""Tables of parameters on the page `docs/glossary.md`, generated from the declarations.

python -m checks.glossary            # check that the page is up to date
python -m checks.glossary --write    # generate its tables again
"""

import sys

from checks import tool
from onehead.aim.flat_parameters import LEARNER_PARAMETERS, TARGET, TARGET_PARAMETERS, TASK_PARAMETERS
from onehead.aim.task import Ratio
from onehead.aim.training.settings import Method, Variant
from onehead.fields import Parameter, parameters_of
from onehead.sparse.task import Protocol, Task

PAGE = tool.ROOT / "docs" / "glossary.md"
BEGIN, END = "<!-- parameters: python -m checks.glossary --write -->\n", "<!-- end of parameters -->\n"

GROUPS: dict[str, list[Parameter]] = {
    "Attention head: task": [
        *parameters_of(Ratio).values(),
        TARGET,
        *TARGET_PARAMETERS.values(),
        *TASK_PARAMETERS.values(),
    ],
    "Attention head: learner": list(LEARNER_PARAMETERS.values()),
    "Attention head: training beyond the theory": [*parameters_of(Variant).values(), *parameters_of(Method).values()],
    "Sparse tokens: task": list(parameters_of(Task).values()),
    "Sparse tokens: protocol": list(parameters_of(Protocol).values()),
}


def table(parameters: list[Parameter]) -> str:
    """Table with one line per parameter: name, symbol, description, allowed values and default."""
    lines = []
    for declared in parameters:
        default = "" if declared.required or declared.default is None else declared.default
        shown = f"{default:g}" if isinstance(default, float) else str(default)
        lines.append([f"`{declared.flat}`", declared.symbol, declared.sentence, declared.allowed, shown])
    return tool.table(["name", "symbol", "description", "values", "default"], lines)


def page(text: str) -> str:
    """Page with its tables generated again; text outside the markers stays."""
    before, generated = text.split(BEGIN)
    _, after = generated.split(END)
    tables = "\n\n".join(f"### {title}\n\n{table(parameters)}" for title, parameters in GROUPS.items())
    return f"{before}{BEGIN}\n{tables}\n\n{END}{after}"


def main() -> None:
    """Compare the page with the declarations, or write it."""
    old = PAGE.read_text(encoding="utf-8")
    new = page(old)
    if tool.parser("checks.glossary", __doc__, "the tables again").parse_args().write:
        PAGE.write_text(new, encoding="utf-8")
    elif new != old:
        sys.exit(f"{PAGE.name} is not up to date; run python -m checks.glossary --write")


if __name__ == "__main__":
    main()
