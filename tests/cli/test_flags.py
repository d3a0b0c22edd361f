"""Flags are made from the declarations: every parameter has one, with its bounds, its description and its default."""

import json

import click
import pytest
from click.testing import CliRunner
from tests.support.programs import python

from onehead import aim, fields
from onehead.aim import flat_parameters
from onehead.aim.training.settings import Variant
from onehead.cli.aim import flags as aim_flags
from onehead.cli.aim.commands import command as aim_commands
from onehead.cli.parsing.values import Number, Range, type_of
from onehead.cli.rendering.render import CommandResult, output_options, render
from onehead.cli.sparse import flags as sparse_flags
from onehead.cli.sparse.commands import command as sparse_commands
from onehead.errors import SolveError

AIM, SPARSE = (
    {name: group.get_command(click.Context(group), name).params for name in group.list_commands(click.Context(group))}
    for group in (aim_commands, sparse_commands)
)

# defaults of a command that differ from those of its parameters
OWN_DEFAULTS = {("survivors", "attention"): "cross", ("survivors", "heads"): 2, ("survivors", "values"): "learnt"}


@pytest.mark.parametrize("name", AIM)
def test_every_aim_parameter_is_a_flag_of_every_command(name):
    flags = {param.opts[0]: param for param in AIM[name]}
    for declared in flat_parameters.PARAMETERS.values():
        flag = flags[declared.flag]
        assert flag.help.startswith(declared.help)
        assert flag.default is None  # the problem fills it in
        if declared.flat not in ("target", "dim", "atoms") and not declared.required and declared.default is not None:
            default = OWN_DEFAULTS.get((name, declared.flat), declared.default)
            default = f"{default:g}" if isinstance(default, float) else default
            assert flag.help.endswith(f"[default: {default}]")


@pytest.mark.parametrize("name", SPARSE)
def test_every_sparse_parameter_is_a_flag_of_every_command_that_supports_it(name):
    flags = {param.opts[0] for param in SPARSE[name]}
    for declared in sparse_flags.PARAMETERS.values():
        assert (declared.flag in flags) == (not declared.verbs or name in declared.verbs), declared.flag
    declared = {*fields.parameters_of(sparse_flags.Task, sparse_flags.Protocol)}
    assert set(sparse_flags.PARAMETERS) == declared - {"positions"}


def test_every_parameter_of_a_variant_is_a_flag_of_train():
    names = {param.name for param in AIM["train"]}
    assert set(Variant.model_fields) <= names
    assert names >= {"optimiser", "dtype"}


def test_a_new_field_of_a_learner_is_a_flag(monkeypatch):
    class Wider(aim.Learner):
        dropout: float = fields.parameter(0.25, "p", "Share of the weights left out; none by default.", ge=0.0, lt=0.5)
        frozen: bool = fields.parameter(False, "", "Leave the weights alone.")

    more = {**flat_parameters.PARAMETERS, **fields.parameters_of(Wider)}
    monkeypatch.setattr(aim_flags, "PARAMETERS", more)
    received = {}

    def problem(values):
        received.update(values)
        return aim.Task(), aim.Learner(), {}

    monkeypatch.setattr(aim_flags, "problem_from_parameters", problem)
    command = click.command()(aim_flags.aim_options()(lambda task, learner: None))
    shown = " ".join(CliRunner().invoke(command, ["--help"]).output.split())
    assert "Share of the weights left out (p); none by default. [default: 0.25]" in shown
    assert CliRunner().invoke(command, ["--dropout", "0.4", "--frozen"]).exit_code == 0
    assert (received["dropout"], received["frozen"], received["noise"]) == (0.4, True, None)
    refused = CliRunner().invoke(command, ["--dropout", "0.5"])
    assert "must be a number >= 0 and < 0.5; got '0.5'" in refused.output


def test_bounds_are_open_or_closed_as_declared():
    rate = type_of(sparse_flags.PARAMETERS["positive_rate"], ranged=True)
    assert rate.convert("0.5,0.25", None, None) == (0.5, 0.25)
    for end in ("0", "1", "0.1:1:3"):
        with pytest.raises(click.BadParameter, match=r"each a number > 0 and < 1"):
            rate.convert(end, None, None)
    assert type_of(flat_parameters.PARAMETERS["beta"]).convert("100", None, None) == 100.0
    with pytest.raises(click.BadParameter, match=r"a number < 1; got '1'"):
        Number(lt=1.0).convert("1", None, None)


def test_ranges_of_integers_and_of_penalties():
    integers = Range(integer=True, ge=1)
    assert integers.convert("log:1:1000:4", None, None) == (1, 10, 100, 1000)
    assert integers.convert("1:4:3", None, None) == (1, 2, 4)
    assert [type(value) for value in integers.convert("3,1e2", None, None)] == [int, int]
    with pytest.raises(click.BadParameter, match="each an integer >= 1"):
        integers.convert("2.5", None, None)
    assert type_of(sparse_flags.PARAMETERS["ridge"], ranged=True).convert("0+,1", None, None) == (0.0, 1.0)
    with pytest.raises(click.BadParameter):
        Range(ge=0.0).convert("0+", None, None)
    decays = type_of(flat_parameters.PARAMETERS["weight_decay"], ranged=True)
    assert decays.convert("0+,0.01", None, None) == (0.0, 0.01)  # the limit, where the number zero is refused
    with pytest.raises(click.BadParameter, match=r"each a number > 0 and <= 1e\+06, or 0\+, at most"):
        decays.convert("0,0.01", None, None)


@pytest.mark.parametrize("command", [("aim", "curve", "--alphas", "1"), ("sparse", "align", "--beta", "1,2")])
@pytest.mark.parametrize(("flag", "name"), [("--csv", "no/such/x.csv"), ("--plot", "no/such/x.png")])
def test_output_files_are_refused_before_any_work(refused, monkeypatch, command, flag, name):
    from onehead import aim, sparse

    for package in (aim, sparse):
        for verb in ("curve", "align"):
            monkeypatch.setattr(package, verb, lambda *_, **__: pytest.fail("work was done"), raising=False)
    assert refused(*command, flag, name) == f"onehead: {flag} must be in a folder that exists; got {name!r}.\n"


def test_a_result_is_rendered_in_every_form(capsys, tmp_path):
    drawn = []
    result = CommandResult(
        value=[{"a": 1.0, "list": [1, 2]}, {"a": float("inf"), "b": "x"}],
        columns=("a", "b"),
        draw=lambda: drawn.append("picture"),
        notes=["always."],
        warnings=["below a table"],
        failure="1 of 2 points failed; the first: no",
    )
    table = tmp_path / "t.csv"
    with pytest.raises(SolveError, match="1 of 2"):
        render(result, as_json=True, csv_file=str(table), plot="x.png")
    out, err = capsys.readouterr()
    assert json.loads(out) == [{"a": 1.0, "list": [1, 2]}, {"a": None, "b": "x"}]
    assert "note: always.\n" in err
    assert "below" not in err
    assert table.read_text().splitlines() == ["a,b", "1.0,", ",x"]
    assert drawn == ["picture"]
    with pytest.raises(SolveError):
        render(result, as_json=False, csv_file=None, plot=None)
    out, err = capsys.readouterr()
    assert "inf" in out  # a table can show what JSON cannot
    assert "note: below a table.\n" in err
    assert drawn == ["picture"]


def test_a_command_without_rows_has_no_flag_for_them():
    command = click.command()(
        output_options(csv_rows=False, picture=False)(lambda: CommandResult(value={"a": 1}, columns={"a": "one"}))
    )
    assert [param.name for param in command.params] == ["as_json"]
    assert json.loads(CliRunner().invoke(command, ["--json"]).output) == {"a": 1}
    assert "one" in CliRunner().invoke(command, []).output


@pytest.mark.parametrize(
    ("command", "heavy"),
    [
        ("aim predict --help", "numba,scipy,pandas,matplotlib,rich,dash"),
        ("sparse predict --help", "numba,scipy,pandas,matplotlib,rich,dash"),
        ("aim train --help", "numba,scipy,pandas,matplotlib,rich,dash"),
        ("aim predict --alpha 0.5 --json", "pandas,matplotlib,rich,dash"),
        ("sparse align --json", "pandas,matplotlib,rich,dash"),
    ],
)
def test_commands_import_only_what_they_use(command, heavy):
    code = (
        "import sys; from onehead.cli.main import cli; cli.main(sys.argv[2].split(), standalone_mode=False);"
        "print(sorted({m.split('.')[0] for m in sys.modules} & set(sys.argv[1].split(','))))"
    )
    assert python(code, heavy, command).splitlines()[-1] == "[]"
