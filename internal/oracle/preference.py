"""Golden cases of losses over pairs of answers, and over good and bad ones: DPO and its kin, BCO, MPO's mixture, KTO.

    pip install torch numpy
    pip download --no-deps trl==0.24.0 && unzip -d trl trl-0.24.0-py3-none-any.whl
    python3 preference.py --trl trl --out ../golden/methods

TRL's own dpo_loss and kto_loss compute every value in float64, cut out of trainers that need more than torch; MPO's
mixture adds them up as get_batch_loss_metrics does.
"""
import argparse
import ast
import json
import os
import types
from enum import Enum
from typing import *

import numpy as np
import torch
import torch.nn.functional as F


class FDivergenceType(Enum):
    REVERSE_KL = "reverse_kl"
    JS_DIVERGENCE = "js_divergence"
    ALPHA_DIVERGENCE = "alpha_divergence"


def method(path, of, name):
    with open(path) as f:
        tree = ast.parse(f.read())
    owner = next(n for n in tree.body if isinstance(n, ast.ClassDef) and n.name == of)
    body = [n for n in owner.body if isinstance(n, ast.FunctionDef) and n.name == name]
    scope = {"torch": torch, "F": F, "FDivergenceType": FDivergenceType, "Union": Union, "Optional": Optional}
    exec(compile(ast.Module(body, []), path, "exec"), scope)
    return scope[name]


class Running:
    """RunningMoments.update's mean of numbers that come one by one, without its rounding to float32."""

    def __init__(self):
        self.mean, self.count = 0.0, 1e-24

    def update(self, xs):
        self.count += 1
        self.mean += (float(xs) - self.mean) / self.count


def array(x):
    x = np.asarray(x)
    return {"shape": list(x.shape), "data": [float(v) for v in x.ravel()]}


NAMES = {"sigmoid": "sigmoid", "robust": "robust", "hinge": "hinge", "ipo": "ipo", "exo_pair": "exo", "nca_pair": "nca",
         "sppo_hard": "sppo", "apo_zero": "apo-zero", "apo_down": "apo-down", "bco_pair": "bco"}


def pairs(root):
    dpo_loss = method(os.path.join(root, "trl/trainer/dpo_trainer.py"), "DPOTrainer", "dpo_loss")
    rng = np.random.default_rng(5)
    table = [(theirs, 0.0, 0.1 if i % 2 else 0.5, 0, 0) for i, theirs in enumerate(NAMES)]
    table += [("sigmoid", 0.1, 0.3, 0, 0), ("robust", 0.2, 0.3, 0, 0), ("exo_pair", 0.1, 0.3, 0, 0),
              ("sigmoid", 0, 0.1, 0, 1.0), ("sigmoid", 0, 0.1, 0.2, 1.0), ("hinge", 0, 1.0, 0.5, 0.25)]
    for form, smoothing, beta, quality, imitate in table:
        n = 5
        lengths = rng.integers(1, 30, (2, n))
        own = torch.tensor(-rng.gamma(2.0, 1.0, (2, n)) * lengths ** 0.5, requires_grad=True)
        ref = torch.tensor(own.detach().numpy() + rng.normal(0, 3, (2, n)))
        tokens = torch.tensor(lengths, dtype=torch.float64)
        weight = 0.8 if quality else 1.0
        me = types.SimpleNamespace(accelerator=types.SimpleNamespace(device="cpu"), reference_free=False, beta=beta,
                                   label_smoothing=smoothing, f_divergence_type=FDivergenceType.REVERSE_KL, f_divergence_params=None,
                                   running=Running())
        me.running.update(0.3)
        given = (own / tokens, ref / tokens) if form == "ipo" else (own, ref)  # as concatenated_forward
        nll = -own[0].sum() / tokens[0].sum()
        losses, _, _ = dpo_loss(me, given[0][0], given[0][1], given[1][0], given[1][1], form)
        losses = losses * weight
        if quality:
            losses = losses + quality * dpo_loss(me, own[0], own[1], ref[0], ref[1], "bco_pair")[0]
        if imitate:
            losses = losses + imitate * nll
        loss = losses.mean()
        loss.backward()
        name = f"{form}_s{smoothing}_b{beta}_q{quality}_i{imitate}"
        yield {"name": "preference/" + name, "op": "methods.loss_preference", "source": "trl 0.24.0 trl/trainer/dpo_trainer.py dpo_loss",
               "note": "sums of log-probabilities, better answers first; the running mean has seen one batch of 0.3",
               "in": {"form": NAMES[form], "beta": beta, "smoothing": smoothing, "weight": weight, "quality": quality, "imitate": imitate,
                      "own": array(own.detach()), "reference": array(ref), "tokens": array(lengths)},
               "out": {"loss": float(loss), "grad_own": array(own.grad)}, "tol": {"abs": 1e-9, "rel": 1e-9}}


def good(root):
    kto_loss = method(os.path.join(root, "trl/trainer/kto_trainer.py"), "KTOTrainer", "kto_loss")
    rng = np.random.default_rng(9)
    for name, shift, undesirable, kind in [("near", 0.0, 1.0, "kto"), ("far", 4.0, 1.0, "kto"), ("below", -4.0, 1.33, "kto"),
                                           ("apo", 0.0, 1.0, "apo_zero_unpaired")]:
        n, label = 6, np.array([1, 0, 1, 1, 0, 0], bool)
        own = torch.tensor(rng.normal(-20, 5, n), requires_grad=True)
        ref = torch.tensor(own.detach().numpy() + rng.normal(0, 3, n))
        other = torch.tensor(rng.normal(-40, 5, n))
        other_ref = torch.tensor(other.numpy() - shift + rng.normal(0, 1, n))
        me = types.SimpleNamespace(calculate_KL=kind == "kto", loss_type=kind, beta=0.1, desirable_weight=1.0, undesirable_weight=undesirable,
                                   accelerator=types.SimpleNamespace(gather_for_metrics=lambda x: x, device="cpu"))
        losses, _, _, kl = kto_loss(me, own[label], own[~label], other, ref[label], ref[~label], other_ref)
        loss = losses.nanmean()
        loss.backward()
        yield {"name": "kto/" + name, "op": "methods.loss_kto", "source": "trl 0.24.0 trl/trainer/kto_trainer.py kto_loss",
               "note": "sums of log-probabilities; other are answers to other questions",
               "in": {"beta": 0.1, "undesirable": undesirable, "good": array(label), "own": array(own.detach()), "reference": array(ref),
                      "other": array(other if kind == "kto" else np.zeros(0)), "other_reference": array(other_ref if kind == "kto" else np.zeros(0))},
               "out": {"loss": float(loss), "grad_own": array(own.grad), "distance": float(kl)}, "tol": {"abs": 1e-9, "rel": 1e-9}}


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--trl", required=True)
    parser.add_argument("--out", required=True)
    args = parser.parse_args()
    torch.set_default_dtype(torch.float64)
    cases = {"family": "preference", "doc": "losses over written answers, by testdata/oracle/preference.py", "cases": list(pairs(args.trl)) + list(good(args.trl))}
    with open(os.path.join(args.out, "preference.json"), "w") as f:
        json.dump(cases, f, indent=1)
        f.write("\n")
