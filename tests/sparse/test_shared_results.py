"""Results that aim and sparse share: repr, explanation, certificates, grids."""

from dataclasses import dataclass

import numpy as np
import pytest

from onehead import aim, sparse
from onehead.aim.solve.certificate import AimCertificate
from onehead.errors import InvalidArgument
from onehead.results import Certificate, Grid, Result


def quick_results():
    """Yield a quick result of every public function of sparse."""
    task, plan = sparse.Task(), sparse.Protocol(loss="square")
    yield sparse.align(task, plan)
    yield sparse.predict(task, plan, model="pooled")
    yield sparse.predict(task, plan, accuracy=1e-2)
    yield sparse.capacity(sparse.Task(strength=1.0), sparse.Protocol(cos_query=0.5, sharpness=1.0))
    yield sparse.oracle(task)
    yield sparse.bayes(task, 1.0)
    yield sparse.amp(task, 1.0, dim=30, iterations=3, trials=2)
    yield sparse.train(task, plan, dim=30, trials=2)
    yield sparse.finite_size(task, plan, dim=30, trials=2)


def test_every_result_has_a_short_repr_and_an_explanation():
    learner = aim.Learner()
    others = [aim.predict(aim.Task(), learner, 0.5), aim.thresholds(aim.Task(), learner)]
    for found in [*quick_results(), *others]:
        line, text = repr(found), found.explain()
        assert line.startswith(f"{type(found).__name__}(") and "\n" not in line and len(line) < 260
        assert found.status == found.certificate.status and repr(found.status) in line
        assert found.kind == found.certificate.kind
        assert text.endswith(f"Kind of truth: {found.kind}.")
        assert max(map(len, text.splitlines())) <= 84
        assert found.to_frame().shape == (1, len(found.to_series()))
        for name, error in found.errors.items():
            assert isinstance(getattr(found, name), float) and error >= 0.0


def test_errors_are_named_after_their_numbers():
    point = sparse.predict(sparse.Task(), sparse.Protocol(loss="square"), accuracy=1e-2)
    numbers = ("test_error", "train_loss", "train_error", "query_weight", "signal_weight", "bias", "rest_norm", "step")
    assert set(point.errors) == set(numbers)
    assert point.errors["test_error"] == point.certificate.quadrature_error == point.test_error_err
    assert point.to_dict()["train_loss_err"] == point.errors["train_loss"]
    assert f"± {point.errors['test_error']:.2g}" in repr(point)
    found = sparse.capacity(sparse.Task(strength=1.0), sparse.Protocol(cos_query=0.5, sharpness=1.0))
    assert list(found.errors) == ["attention", "pooled", "vectorised"]


def test_a_result_without_certificate_has_no_status():
    @dataclass(frozen=True, kw_only=True)
    class Bare(Result):
        """A number."""

        number: float

    assert (Bare(number=2.0).status, Bare(number=2.0).kind, Bare(number=2.0).errors) == ("", None, {})
    assert repr(Bare(number=2.0)) == "Bare(number=2)"
    assert Bare(number=2.0).explain() == "A number.\nnumber = 2."


def test_explanation_says_where_the_query_points():
    rare = sparse.Task(positive_rate=0.2, strength=4.0)
    text = sparse.predict(rare, sparse.Protocol(eta_b=0.0), accuracy=1e-2).explain()
    assert "away from" in text and "Note: the query is anti-aligned" in text and "guessing errs on 20.0%" in text
    assert "Query" not in sparse.predict(rare, sparse.Protocol(), model="pooled").explain()


def test_a_certificate_can_be_derived_from_another():
    known = AimCertificate(status="converged", kind="claim", residual=1e-8, warnings=("look",), replicon=0.5)
    taken = Certificate.of(known, evaluations=3)
    assert type(taken) is Certificate
    assert taken == Certificate(status="converged", kind="claim", residual=1e-8, warnings=("look",), evaluations=3)
    assert known.converged and not known.clean and not known.interrupted
    assert Certificate(status="interrupted after 1 of 3 seeds", kind="measurement").interrupted
    assert not Certificate(status="converged; approximate", kind="claim").clean


def test_a_map_is_a_grid():
    plan = sparse.Protocol(loss="square")
    found = sparse.map(sparse.Task(positive_rate=0.2), plan, x=("eta_b", [0.0, 3.0, 6.0]), y=("ridge", [0.01, 1.0]))
    assert isinstance(found, Grid) and len(found) == 6 and found.failures == ()
    assert found.axes == {"eta_b": (0.0, 3.0, 6.0), "ridge": (0.01, 1.0)}
    assert found.grid("x").tolist() == [[0.0, 3.0, 6.0]] * 2  # the first axis across
    assert found.grid("test_error")[1, 2] == found.cells[5].test_error
    assert found.to_rows()[1]["eta_b"] == 3.0 and list(found.to_frame()["ridge"]) == [0.01] * 3 + [1.0] * 3
    assert "6 of 6 solved" in repr(found) and "<th>eta_b</th>" in found._repr_html_()
    with pytest.raises(InvalidArgument, match="a number of the points: test_error, "):
        found.grid("status")
    with pytest.raises(InvalidArgument, match="colour"):
        found.grid("colour")


def test_a_cell_without_a_solution_is_nan(monkeypatch):
    from onehead.errors import NotConverged
    from onehead.sparse.verbs import map as map_module

    def fails(task, protocol, **options):
        raise NotConverged("no.")

    monkeypatch.setattr(map_module, "predict", fails)
    found = sparse.map(sparse.Task(), sparse.Protocol(), x=("beta", [1.0]), y=("ridge", [0.1]))
    assert np.isnan(found.grid("test_error")).all() and len(found.failures) == 1
    assert "0 of 1 solved" in repr(found) and found.cells[0].status == "failed: no."


def test_maps_take_any_two_parameters():
    """Parameters of task and protocol, integers among them; a new alpha keeps the split and vice versa."""
    plan = sparse.Protocol(loss="square", ridge=0.1, alpha0=0.5, alpha1=1.5)
    lengths, ratios = ("length", np.array([5, 10])), ("alpha", [1.0, 4.0])
    found = sparse.map(sparse.Task(), plan, x=lengths, y=ratios, of="cos_query", accuracy=5e-3)
    for cell in found:
        own = sparse.predict(sparse.Task(length=int(cell.x)), plan.with_alpha(cell.y), accuracy=5e-3)
        assert (cell.test_error, cell.cos_query) == (own.test_error, own.cos_query)
        assert cell.point.protocol.alpha0 == 0.25 * cell.y
    assert (found.of, found.cos_query.shape) == ("cos_query", (2, 2))
    moved = sparse.map(sparse.Task(), plan, x=("strength", [3.0]), y=("split", [0.4]), bayes=True)
    assert moved[0].point.protocol.alpha0 == pytest.approx(0.8)  # of two
    assert moved[0].bayes_test_error == sparse.bayes(sparse.Task(strength=3.0), 2.0).test_error
    given = sparse.Protocol(loss="square", cos_query=0.5, sharpness=1.0)
    assert sparse.map(sparse.Task(), given, x=("cos_query", [0.1, 0.9]), y=("sharpness", [2.0])).cos_query.tolist() == [
        [0.1, 0.9]
    ]
