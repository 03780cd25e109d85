"""Golden cases of methods that are in no family of golden/: BNPO, PKPO.

    pip install torch numpy
    git clone https://github.com/changyi7231/BNPO
    git clone https://github.com/kpahwa16/pass-k-policy-optimization pkpo
    python3 methods.py --bnpo BNPO --pkpo pkpo --out ../golden/methods

Upstream's own functions compute every value. BNPO's is cut out of its trainer, which needs ray.
"""
import argparse
import ast
import importlib.util
import json
import os
from collections import defaultdict

import numpy as np
import torch


def function(path, name, scope):
    """One function of a file whose imports are not there."""
    with open(path) as f:
        tree = ast.parse(f.read())
    body = [n for n in tree.body if isinstance(n, ast.FunctionDef) and n.name == name]
    exec(compile(ast.Module(body, []), path, "exec"), scope)
    return scope[name]


def array(x):
    x = np.asarray(x)
    return {"shape": list(x.shape), "data": [float(v) for v in x.ravel()]}


def bnpo(path):
    compute = function(os.path.join(path, "recipe/bnpo/src/bnpo_ray_trainer.py"), "compute_bnpo_outcome_advantage",
                       {"torch": torch, "defaultdict": defaultdict})
    torch.set_default_dtype(torch.float64)
    rng = np.random.default_rng(7)
    tables = [
        ("binary", 8, 6, lambda n, m: (rng.random((n, m)) < rng.random((n, 1))).astype(float), 0, 1),
        ("graded", 5, 4, lambda n, m: rng.random((n, m)), 0, 1),
        ("signed", 6, 5, lambda n, m: 2 * rng.random((n, m)) - 1, -1, 1),
        ("narrow", 4, 8, lambda n, m: 0.45 + 0.1 * rng.random((n, m)), 0, 1),
        ("one_prompt", 1, 6, lambda n, m: (rng.random((n, m)) < 0.5).astype(float), 0, 1),
        ("solved_and_hopeless", 4, 3, lambda n, m: np.array([[1, 1, 1], [0, 0, 0], [1, 0, 1], [0, 0, 1.0]]), 0, 1),
    ]
    for name, n, m, draw, low, high in tables:
        r = draw(n, m).ravel()
        group = np.repeat(np.arange(n), m)
        a, _ = compute(torch.tensor(r)[:, None].clone(), torch.ones(len(r), 1), group, low, high)
        yield {"name": "adv_bnpo/" + name, "op": "methods.adv_bnpo", "source": "BNPO recipe/bnpo/src/bnpo_ray_trainer.py",
               "note": "compute_bnpo_outcome_advantage in float64, one token an answer",
               "in": {"rewards": array(r), "group": array(group), "low": low, "high": high}, "out": {"advantages": array(a[:, 0])},
               "tol": {"abs": 1e-12, "rel": 1e-10}}


def pkpo(path):
    spec = importlib.util.spec_from_file_location("pkpo_core", os.path.join(path, "pkpo_core.py"))
    core = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(core)
    rng = np.random.default_rng(11)
    for name, n, k, r in [
        ("binary", 8, 2, (rng.random(8) < 0.4).astype(float)), ("graded", 8, 4, rng.random(8)), ("all", 6, 6, rng.normal(size=6)),
        ("large", 24, 8, rng.normal(size=24)), ("pairs", 2, 2, rng.normal(size=2)), ("hopeless", 8, 3, np.zeros(8)),
    ]:
        yield {"name": "adv_maxatk/" + name, "op": "methods.adv_maxatk", "source": "Walder and Karkhanis 2025, listing 1, as in pkpo_core.py",
               "note": "sloo_minus_one(g, K)", "in": {"rewards": array(r), "group": array(np.zeros(n)), "k": k},
               "out": {"advantages": array(core.sloo_minus_one(r, k))}, "tol": {"abs": 1e-12, "rel": 1e-10}}


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    for name in ("bnpo", "pkpo", "out"):
        parser.add_argument("--" + name, required=True)
    args = parser.parse_args()
    os.makedirs(args.out, exist_ok=True)
    family = {"family": "methods", "doc": "advantages of methods, by their authors' code", "cases": [*bnpo(args.bnpo), *pkpo(args.pkpo)]}
    with open(os.path.join(args.out, "advantages.json"), "w") as f:
        json.dump(family, f, indent=1)
        f.write("\n")
