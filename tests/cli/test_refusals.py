"""Every wrong argument is refused in one line that names its flag and what is allowed."""

import shlex

import pytest


# the command, and texts that its line must contain
@pytest.mark.parametrize(
    "row",
    [
        ("aim predict --alpha -1", "--alpha", "> 0"),
        ("aim predict --alpha 0", "--alpha", "> 0"),
        ("aim predict --alpha nan", "--alpha", "a number"),
        ("aim predict --alpha inf", "--alpha", "a number"),
        ("aim predict --alpha many", "--alpha", "a number"),
        ("aim predict --alpha", "--alpha", "argument"),
        ("aim predict --alpha 1 --kappa0 0", "--kappa0", ">="),
        ("aim predict --alpha 1 --noise -1", "--noise", ">= 0"),
        ("aim predict --alpha 1 --tokens 1", "--tokens", "2"),
        ("aim predict --alpha 1 --tokens 65", "--tokens", "64"),
        ("aim predict --alpha 1 --tokens 2.5", "--tokens", "integer"),
        ("aim predict --alpha 1 --beta 0", "--beta", ">= 1e-06"),
        ("aim predict --alpha 1 --beta0 -2", "--beta0", ">= 1e-06"),
        ("aim predict --alpha 1 --weight-decay 0", "--weight-decay", "0+"),
        ("aim predict --alpha 1 --weight-decay -0.1", "--weight-decay", "0+"),
        ("aim predict --alpha 1 --loss hinge", "--loss", "squared or cross-entropy"),
        ("aim predict --alpha 1 --width 0", "--width", "> 0"),
        ("aim predict --alpha 1 --param tied", "--param", "factorised or direct"),
        ("aim predict --alpha 1 --branch both", "--branch", "label or global"),
        ("aim predict --alpha 1 --lambda 1", "--lambda", "--weight-decay"),
        ("aim predict --alpha 1 extra", "extra"),
        ("aim curve --alphas 1:2", "--alphas", "start:stop:count"),
        ("aim curve --alphas 0:2:5", "--alphas", "> 0"),
        ("aim curve --alphas log:1:2", "--alphas", "log:start:stop:count"),
        ("aim curve --alphas 1:2:0", "--alphas", "count"),
        ("aim curve --alphas 1:2:1000000", "--alphas", "100000"),
        ("aim curve --alphas 1,x", "--alphas", "comma list"),
        ("aim curve --alphas ''", "--alphas", "comma list"),
        ("aim curve --alphas 1 --plot x.gif", "--plot", ".png"),
        ("aim thresholds --alpha 1", "--alpha", "allowed"),
        ("aim nonsense", "nonsense", "predict"),
        ("nonsense", "nonsense", "aim"),
        ("aim predict --alpha 1 --target nope", "onehead: --target must be mp or product or power-law or spikes or "
            "atoms; got 'nope'."),
        ("aim predict --alpha 1 --attention crossed", "onehead: --attention must be tied or self or cross; got "
            "'crossed' (did you mean cross?)."),
        ("aim predict --alpha 1 --mask causally", "onehead: --mask must be none or causal or strict; got 'causally' "
            "(did you mean causal?)."),
        ("aim curve --alphas 1 --labels drawn", "onehead: --labels must be soft or hard; got 'drawn'."),
        ("aim predict --alpha 1 --labels hard", "onehead: --loss must be cross-entropy with hard labels; got "
            "'squared'."),
        ("aim train --alpha 1 --dim 20 --labels hard", "onehead: --loss must be cross-entropy with hard labels; got "
            "'squared'."),
        ("aim predict --alpha 1 --mask strict",
         "onehead: --tokens must be an integer >= 3 with a strict mask: a choice needs two columns; got 2."),
        ("aim predict --alpha 1 --target product",
         "onehead: --target must be symmetric for a tied head; a product needs attention self or cross; got"),
        ("aim predict --alpha 1 --labels hard --loss cross-entropy --tokens 65",
         "onehead: --tokens must be at most 64 for a tied head without a mask; attention cross, or any mask, takes "
             "100000; got 65."),
        ("aim predict --alpha 1 --gamma 1", "onehead: --gamma must be left out with target mp; got 1.0."),
        ("aim predict", "onehead: give --alpha, or --samples together with --dim.\n"),
        ("aim predict --samples 9", "onehead: give --alpha, or --samples together with --dim.\n"),
        ("aim curve", "onehead: give --alphas, or --samples together with --dim.\n"),
        ("aim bayes", "onehead: give --alpha or --alphas, or --samples together with --dim.\n"),
        ("aim predict --alpha 1 --samples 9 --target power-law", "onehead: give only one of --alpha and --samples.\n"),
        ("aim bayes --alpha 1 --samples 9 --dim 50", "onehead: give only one of --alpha, --alphas and --samples.\n"),
        ("aim predict --alpha 1 --weight-decay 1/d",
         "onehead: --weight-decay must be a number, or 0+: this target has no dimension d; got '1/d'."),
        ("aim predict --alpha 1 --target atoms --atoms /nope", "onehead: --atoms must be a .npy file of numbers, or a "
            "text file of numbers (No such file or directory); got '/nope'."),
        ("aim scaling --samples 9 --target mp",
         "onehead: --target must be a target with a dimension d: PowerLaw, Spikes or Atoms"),
        ("aim train --alpha 1", "onehead: give --dim, the dimension of a token (d).\n"),
        ("aim tune --alpha 1 --explain", "onehead: --explain is not an option of 'onehead aim tune'; allowed: "
            "--accuracy,"),
        ("aim tune --alpha 1 --weight-dekay 1", "is not an option of 'onehead aim tune' (did you mean "
            "--weight-decay?); allowed:"),
        ("aim scaling", "onehead: --samples must be given: Numbers of samples n, for example log:1e3:1e6:13."),
        ("aim predict --alpha 1 --weight-decay heavy", "--weight-decay must be a number > 0, 0+, or 1/d, sqrt(d), d^x"),
        ("aim predict --alpha 1 --weight-decay 1e7", "--weight-decay must be a number > 0 and <= 1e+06, or 0+"),
        ("aim predict --alpha 1 --weight-decay nan", "--weight-decay must be a number > 0"),
        ("aim predict --alpha 1 --target atoms", "--atoms must be given: a list of 1 to 20000 finite numbers"),
        ("aim predict --alpha 1 --target spikes --spikes 1,2 --dim 2", "--dim must be an integer > 2"),
        ("aim train --dim 20 --alpha 1 --token-law nowhere.npy", "--token-law must be gaussian", "or a .npy file"),
        ("aim train --dim 20 --alpha 1 --token-law cauchy", "--token-law must be gaussian", "or a .npy file"),
        ("aim compare --alphas 1 --dims a,b", "comma list"),
        ("sparse predict --model transformer --json", "--model must be"),
        ("sparse predict --length 0 --json", "--length must be"),
        ("sparse predict --length 2.5 --json", "--length must be"),
        ("sparse predict --length ten --json", "--length must be"),
        ("sparse predict --signal-tokens 11 --json", "--signal-tokens must be at most length = 10"),
        ("sparse predict --strength -1 --json", "--strength must be"),
        ("sparse predict --positive-rate 0 --json", "--positive-rate must be"),
        ("sparse predict --positive-rate 1 --json", "--positive-rate must be"),
        ("sparse predict --alpha0 0 --json", "--alpha0 must be"),
        ("sparse predict --alpha1 nan --json", "--alpha1 must be"),
        ("sparse predict --alpha 1:2 --json", "--alpha must be"),
        ("sparse predict --beta -1 --json", "--beta must be"),
        ("sparse predict --eta-w 0 --json", "--eta-w must be"),
        ("sparse predict --eta-b -1 --json", "--eta-b must be"),
        ("sparse predict --eta-q inf --json", "--eta-q must be"),
        ("sparse predict --loss cubic --json", "--loss must be"),
        ("sparse predict --ridge -1 --json", "--ridge must be"),
        ("sparse predict --cos-query 2 --sharpness 1 --json", "--cos-query must be"),
        ("sparse predict --cos-query 0.5 --json", "--sharpness must be given"),
        ("sparse predict --sharpness 1 --json", "--cos-query must be given"),
        ("sparse predict --test-length 0 --json", "--test-length must be"),
        ("sparse predict --test-length 20 --model vectorised --json", "--test-length must be"),
        ("sparse predict --dim 100 --model pooled --json", "--dim must be"),
        ("sparse predict --plot x.gif --alpha 1,2 --json", "--plot must be"),
        ("sparse align --plot x.png --json", "--plot must be used with exactly one range"),
        ("sparse align --colour red --json", "--colour is not an option"),
        ("sparse capacity --sharpness -1 --cos-query 0 --json", "--sharpness must be"),
        ("sparse oracle --activation tanh --json", "--activation must be"),
        ("sparse oracle --growth cubic --json", "--growth must be"),
        ("sparse oracle --seed -1 --json", "--seed must be"),
        ("sparse train --dim 2 --json", "--dim must be"),
        ("sparse train --trials 0 --json", "--trials must be"),
        ("sparse train --mode magic --json", "--mode must be"),
        ("sparse train --mode joint --model pooled --json", "--model must be"),
        ("sparse train --mode joint --steps 5 --model pooled --json", "--model must be"),
        ("sparse tune --protocol reuse --accuracy 0.01 --json", "--accuracy must be left out"),
        ("sparse tune --protocol descend --dim 500 --json", "--dim must be left out"),
        ("sparse map --x eta-b=0,1 --json", "--y must be given"),
        ("sparse map --x colour=0,1 --y beta=1 --json", "--x must be"),
        ("sparse map --x eta-b --y beta=1 --json", "--x must be PARAMETER=RANGE"),
        ("sparse map --x beta=1 --y beta=2 --json", "--y must be"),
        ("sparse map --x split=2 --y beta=2 --json", "--x must be"),
        ("sparse map --x beta=1 --y ridge=1 --length 5,10 --json", "--length must be one value"),
        ("sparse tune --alpha 0 --json", "--alpha must be"),
        ("sparse tune --cos-query 0.5 --sharpness 1 --json", "--cos-query must be"),
        ("aim survivors --alpha x", "onehead: --alpha must be a number > 0 and <= 1e+06, or inf; got 'x'."),
        ("aim predict --alpha 1 --attention cross --token-spectrum isotopic", "onehead: --token-spectrum must be "
            "isotropic, subspace:R, levels:SHARE,RATIO, power:P, or a .npy or text file of eigenvalues"),
        ("aim predict --alpha 1 --attention cross --token-spectrum levels:0.5,3", "levels:SHARE,RATIO with 0 < SHARE "
            "< 1 and 0 < RATIO <= 1"),
        ("aim predict --alpha 1 --attention cross --token-spectrum subspace:2", "subspace:R with 0 < R <= 1; got"),
        ("aim predict --alpha 1 --attention cross --key-spectrum power:-1", "power:P with 0 <= P <= 10; got"),
        ("sparse predict --reuse --model pooled", "--reuse must be left out for the pooled model"),
        ("sparse predict --reuse --dim 100", "--reuse must be left out for finite_size"),
        ("sparse predict --reuse --cos-query 0.5 --sharpness 1", "--cos-query must be left out with reuse"),
        ("cite --json", "--json is not an option of 'onehead cite'; allowed: --help."),
        ("sparse fly", "No such command 'fly'"),
    ],
    ids=lambda row: row[0],
)  # fmt: skip
def test_a_wrong_argument_is_refused_in_one_line(refused, row):
    command, *parts = row
    line = refused(*shlex.split(command))
    assert all(part in line for part in parts)


@pytest.mark.parametrize(
    ("flags", "sentence"),
    [
        ("--attention self --weight-decay 0+", "onehead: below alpha = 0.5 the limit λ → 0⁺ of self-attention"),
        ("--attention cross --labels hard --loss cross-entropy --weight-decay 0+", "onehead: at alpha = 0.2 the hard "
            "labels are"),
        ("--labels hard --loss cross-entropy --weight-decay 0+", "onehead: the limit λ → 0⁺ of hard labels is "
            "computed only for untied"),
    ],
)  # fmt: skip
def test_a_limit_that_does_not_exist_is_refused_in_one_line(refused, flags, sentence):
    assert refused("aim", "predict", "--alpha", "0.2", *flags.split(), code=1).startswith(sentence)


@pytest.mark.parametrize("batch", ["same", "one-pass"])
def test_a_batch_ratio_without_fresh_batches_is_refused(refused, batch):
    line = refused("sparse", "descend", "--alpha", 2, "--steps", 2, "--batch", batch, "--batch-ratio", 0.5)
    assert line.startswith("onehead: --batch-ratio must be left out unless batch is fresh")
