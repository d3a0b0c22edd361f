"""The lists of random problems: every problem can be asked, and every kind of head is among them."""

from collections import Counter

from checks.soak_heads import draw_head
from checks.soak_problems import draw, problem_of


def test_every_problem_of_the_lists_can_be_asked():
    """A problem that its own words refuse would be counted as a refusal, and look for nothing."""
    for number in range(400):
        problem_of(draw(11, number))
        problem_of(draw_head(11, number))


def test_every_kind_of_head_is_in_its_list():
    """Attention, masks, labels, long rows with and without shared logits, tokens of another kurtosis, leading directions."""
    regions = [draw_head(11, number).regions for number in range(3000)]
    tied = [draw(11, number).regions for number in range(3000)]
    count = Counter((name, region[name]) for region in regions for name in region)
    count += Counter(("leading", region["leading"]) for region in tied if "leading" in region)
    wanted = {
        "attention": ("tied", "self", "cross"),
        "mask": ("none", "causal", "strict"),
        "labels": ("soft", "hard"),
        "tokens": ("T = 2", "T = 3, 4", "T = 5 to 8", "T = 9 to 16", "T above 16"),
        "entries": ("Gaussian", "not Gaussian"),
        "leading": ("auto", "0", "1", "2", "3"),
        "weight decay": ("0+", "small (< 1e-4)"),
    }
    rare = {(name, value): count[name, value] for name, values in wanted.items() for value in values}
    assert min(rare.values()) >= 10, rare
    shared = [r for r in regions if r["mask"] == "none" and r["attention"] == "self" and r["tokens"] == "T = 9 to 16"]
    assert shared
