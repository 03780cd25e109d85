"""Golden cases of methods that are in no family of golden/: BNPO, PKPO, single-stream SPO, DARS, GEPO, ΔL normalization,
GiGPO, PF-PPO, PAPO, CHORD, G2RPO-A, Tree-GRPO.

    pip install torch numpy
    git clone https://github.com/changyi7231/BNPO
    git clone https://github.com/kpahwa16/pass-k-policy-optimization pkpo
    git clone https://github.com/yelurebajrang/HeteroRL_GEPO gepo
    git clone https://github.com/verl-project/verl-recipe
    git clone https://github.com/yangzhch6/DARS
    git clone https://github.com/langfengQ/verl-agent
    git clone https://github.com/swtheing/PF-PPO-RLHF pfppo
    git clone https://github.com/MikeWangWZHL/PAPO papo
    git clone https://github.com/modelscope/Trinity-RFT
    git clone https://github.com/T-Lab-CUHKSZ/G2RPO-A
    git clone https://github.com/AMAP-ML/Tree-GRPO
    python3 methods.py --bnpo BNPO --pkpo pkpo --gepo gepo --spo verl-recipe --dars DARS \
        --gigpo verl-agent --pfppo pfppo --papo papo --chord Trinity-RFT/trinity/algorithm/policy_loss_fn --g2rpoa G2RPO-A --treegrpo Tree-GRPO \
        --out ../golden/methods

Without --papo or --chord, or without the others, the cases of these families that are in --out stay as they are.

Upstream's own functions compute every value. BNPO's and PF-PPO's are cut out of their trainers, which need ray; of GEPO's and SPO's
trainers those statements are run that compute the loss, or the advantages.
"""
import argparse
import ast
import importlib.util
import json
import math
import os
import uuid
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


def statements(path, name, first, last, scope):
    """Runs the statements of a function from the one that begins with first to the one that begins with last."""
    with open(path) as f:
        tree = ast.parse(f.read())
    whole = next(n for n in ast.walk(tree) if isinstance(n, ast.FunctionDef) and n.name == name)
    for block in (getattr(n, "body", []) for n in ast.walk(whole)):
        lines = [ast.unparse(n) for n in block] if isinstance(block, list) else []
        begins = [i for i, line in enumerate(lines) if line.startswith(first)]
        if begins:
            ends = next(i for i in range(begins[0], len(lines)) if lines[i].startswith(last))
            exec(compile(ast.Module(block[begins[0]:ends + 1], []), path, "exec"), scope)
            return scope
    raise SystemExit(f"{path}: nothing in {name} begins with {first}")


def hetero(path):
    path = os.path.join(path, "src/open-r1/online_rl.py")
    torch.set_default_dtype(torch.float64)
    for name, loss_type, rows, width, seed in [("gepo/group", "gepo", 6, 7, 3), ("gepo/stale", "gepo", 8, 5, 4), ("gepo/fresh", "gepo", 4, 6, 5),
                                               ("delta_l/short", "delta_ln", 5, 8, 6), ("delta_l/even", "delta_ln", 4, 6, 7)]:
        rng = np.random.default_rng(seed)
        old = -rng.exponential(0.7, (rows, width))
        new = old if name.endswith("fresh") else np.minimum(old + (1.0 if name.endswith("stale") else 0.2) * rng.normal(size=(rows, width)), -1e-3)
        mask = (np.arange(width) < (width if name.endswith("even") else rng.integers(1, width + 1, (rows, 1)))).astype(float) * np.ones((rows, width))
        adv = rng.normal(size=rows)
        lp = torch.tensor(new).clone().requires_grad_()

        class Trainer:
            epsilon_low, epsilon_high, max_completion_length = 0.2, 0.28, 16
            args = type("Args", (), {"delta": None})
        Trainer.loss_type = loss_type
        scope = statements(path, "_compute_loss", "sampler_seq_lopp = ", "if self.loss_type in", {
            "torch": torch, "self": Trainer, "per_token_logps": lp, "old_per_token_logps": torch.tensor(old),
            "completion_mask": torch.tensor(mask), "advantages": torch.tensor(adv)})
        scope["loss"].backward()
        yield {"name": "loss_" + name, "op": "methods.loss_" + name.split("/")[0], "source": "HeteroRL src/open-r1/online_rl.py",
               "note": "the statements of _compute_loss in float64; clip 0.2 and 0.28" + ("; max_completion_length 16, alpha 0.75" if loss_type == "delta_ln" else ""),
               "in": {"logp": array(new), "old_logp": array(old), "mask": array(mask), "advantages": array(adv)},
               "out": {"loss": float(scope["loss"].detach()), "grad_logp": array(lp.grad)}, "tol": {"abs": 1e-12, "rel": 1e-10}}


def spo(path):
    path = os.path.join(path, "spo/spo_ray_trainer.py")
    torch.set_default_dtype(torch.float64)
    rng = np.random.default_rng(13)
    rho, turns, n = 0.875, 5, 6
    alpha, beta = {p: 0.5 for p in range(9)}, {p: 0.5 for p in range(9)}
    told, out = [], []
    for _ in range(turns):
        prompts = rng.permutation(9)[:n]
        r = torch.tensor((rng.random(n) < 0.1 * prompts + 0.1).astype(float))
        scope = {"torch": torch, "r": r, "rho": torch.full((n,), rho), "spo_metrics": {}, "batch": None, "compute_response_mask": lambda _: None,
                 "alpha": torch.tensor([alpha[p] for p in prompts]), "beta": torch.tensor([beta[p] for p in prompts])}
        advantages = statements(path, "fit", "Neff = alpha", "advantages = (advantages", scope)["advantages"]
        after = statements(path, "fit", "alpha = rho", "beta = rho", scope)
        for i, p in enumerate(prompts):
            alpha[p], beta[p] = after["alpha"][i].item(), after["beta"][i].item()
        told.append((prompts, r))
        out.append(advantages)
    yield {"name": "adv_spo/tracker", "op": "methods.adv_spo", "source": "verl-recipe spo/spo_ray_trainer.py",
           "note": "the statements of fit in float64, a constant rho, one sample a prompt, no offline values",
           "in": {"rho": rho, "prompts": array([p for p, _ in told]), "rewards": array(torch.stack([r for _, r in told]))},
           "out": {"advantages": array(torch.stack(out)), "alpha": array([alpha[p] for p in range(9)]), "beta": array([beta[p] for p in range(9)])},
           "tol": {"abs": 1e-12, "rel": 1e-10}}


def dars(path):
    path = os.path.join(path, "verl/verl/trainer/ppo/ray_dars_trainer.py")
    for by, name in (("equal", "schedule_ET"), ("hard", "schedule_HW")):
        schedule = function(path, name, {"math": math})
        for group, most, divided in ((8, 32, 0), (8, 64, 1), (16, 24, 0), (6, 400, 1)):
            success = [k / group for k in range(group + 1)] + [0.03, 0.31, 0.49]
            yield {"name": f"further_dars/{by}_{group}_{most}", "op": "methods.further_dars", "source": "DARS verl/trainer/ppo/ray_dars_trainer.py",
                   "note": name + "; samples beside a group's", "in": {"by": by, "group": group, "most": most, "divided": divided, "success": array(success)},
                   "out": {"further": array([schedule(s, group, most, bool(divided)) for s in success])}, "tol": {"abs": 0, "rel": 0}}


def gigpo(path):
    path = os.path.join(path, "gigpo/core_gigpo.py")
    torch.set_default_dtype(torch.float64)
    scope = {"torch": torch, "np": np, "defaultdict": defaultdict, "uuid": uuid, "List": list, "Dict": dict, "Any": object}
    for name in ("to_hashable", "build_step_group", "step_norm_reward"):
        function(path, name, scope)
    for name, scale, gamma, seed in (("mean", "none", 0.95, 3), ("deviation", "group", 0.95, 5), ("undiscounted", "none", 1.0, 7)):
        rng = np.random.default_rng(seed)
        episode, prompt, state, reward, returns = [], [], [], [], []
        for e in range(8):
            turns, r = rng.integers(1, 5), rng.random()
            for k in range(turns):
                episode.append(e), prompt.append(e // 4), state.append(rng.integers(0, 3) if k else 9)
                reward.append(r if k == turns - 1 else 0.0), returns.append(gamma ** (turns - 1 - k) * r)
        groups = scope["build_step_group"](np.array(state), np.array(prompt))
        a = scope["step_norm_reward"](torch.tensor(returns), torch.ones(len(returns), 1), groups, 1e-6, scale == "none")
        yield {"name": "adv_gigpo/" + name, "op": "methods.adv_gigpo", "source": "verl-agent gigpo/core_gigpo.py",
               "note": "build_step_group and step_norm_reward in float64, one token a turn",
               "in": {"episode": array(episode), "prompt": array(prompt), "state": array(state), "rewards": array(reward), "gamma": gamma, "scale": scale},
               "out": {"advantages": array(a[:, 0])}, "tol": {"abs": 1e-12, "rel": 1e-10}}


def pfppo(path):
    with open(os.path.join(path, "openrlhf_filter/trainer/ppo_trainer.py")) as f:
        method = next(n for n in ast.walk(ast.parse(f.read())) if isinstance(n, ast.FunctionDef) and n.name == "select_max_random")
    for name, rewards, u in (("first", [0.1, 0.7, 0.4, 0.2], 0.0), ("ties", [0.9, 0.1, 0.9, 0.9, 0.3], 0.6), ("last", [-1.0, -3.0, -2.0], 0.99)):
        rows = torch.arange(len(rewards))[:, None]
        made = type("E", (), {k: rows for k in ("sequences", "action_log_probs", "values", "returns", "advantages", "attention_mask", "action_mask")} | {"info": None})
        scope = {"torch": torch, "Experience": lambda sequences, *_: sequences,
                 "random": type("R", (), {"choice": staticmethod(lambda x: x[int(u * len(x))])})}
        exec(compile(ast.Module([method], []), path, "exec"), scope)
        kept = scope["select_max_random"](None, made, torch.tensor(rewards))
        yield {"name": "select_pf_ppo/" + name, "op": "methods.select_pf_ppo", "source": "PF-PPO-RLHF openrlhf_filter/trainer/ppo_trainer.py",
               "note": "select_max_random, random.choice by u", "in": {"rewards": array(rewards), "u": u},
               "out": {"kept": array(np.sort(kept[:, 0].numpy()))}, "tol": {"abs": 0, "rel": 0}}


def papo(path):
    scope = {"torch": torch, "np": np, "Literal": {}, "Any": object, "Dict": dict, "Tuple": tuple, "F": torch.nn.functional}
    scope["Literal"] = type("L", (), {"__class_getitem__": lambda *_: object})
    scope["Tuple"] = type("T", (), {"__class_getitem__": lambda *_: object})
    scope["Dict"] = scope["Tuple"]
    masked = function(os.path.join(path, "verl/utils/torch_functional.py"), "masked_mean", dict(scope))
    scope["VF"] = type("VF", (), {"masked_mean": staticmethod(masked)})
    for name in ("average_loss", "compute_policy_loss", "compute_kl"):
        function(os.path.join(path, "verl/trainer/core_algos.py"), name, scope)
    actor = os.path.join(path, "verl/workers/actor/dp_actor.py")
    torch.set_default_dtype(torch.float64)
    keep, torch.Tensor.float = torch.Tensor.float, lambda x: x  # compute_kl narrows what it is told
    try:
        for name, mode, weight, surprisal, rows, width, seed in [
                ("token", "token", 0.02, 0.05, 5, 7, 3), ("seq", "seq", 0.01, 0.03, 4, 6, 5), ("far", "token", 0.5, 0.0, 4, 5, 7)]:
            rng = np.random.default_rng(seed)
            old = -rng.exponential(0.7, (rows, width))
            new = np.minimum(old + 0.2 * rng.normal(size=(rows, width)), -1e-3)
            aug = np.minimum(old - (30.0 if name == "far" else 1.0) * np.abs(rng.normal(size=(rows, width))) * (rng.random((rows, width)) < 0.7), -1e-3)
            mask = (np.arange(width) < rng.integers(1, width + 1, (rows, 1))).astype(float)
            adv = rng.normal(size=rows)
            lp = torch.tensor(new).clone().requires_grad_()

            class Config:
                clip_ratio_low, clip_ratio_high, clip_ratio_dual, loss_avg_mode = 0.2, 0.28, 3.0, mode
                kl_prcp_penalty, kl_prcp_coef, use_kl_prcp_token_level_mask, use_kl_prcp_clipping = "low_var_kl", weight, False, False
                use_kl_loss, use_aug_entropy_loss, aug_entropy_loss_coef = False, False, 0
                use_ori_entropy_loss, ori_entropy_loss_coef = surprisal > 0, surprisal
            run = dict(scope, self=type("A", (), {"config": Config}), log_probs=lp, old_log_probs=torch.tensor(old), response_mask=torch.tensor(mask),
                       aug_log_probs=torch.tensor(aug), advantages=torch.tensor(adv)[:, None] * torch.ones(rows, width), kl_prcp_weighting=[1.0] * rows,
                       kl_prcp_coef=None, metrics=defaultdict(list), model_inputs={})
            run["entropy_loss"] = -masked(lp, run["response_mask"])
            loss = statements(actor, "update_policy", "pg_loss, pg_metrics = ", "if self.config.use_ori_entropy_loss", run)["pg_loss"]
            loss.backward()
            yield {"name": "loss_papo/" + name, "op": "methods.loss_papo", "source": "PAPO verl/workers/actor/dp_actor.py, verl/trainer/core_algos.py",
                   "note": "the statements of update_policy in float64; clip 0.2, 0.28 and dual 3; without the masked surprisal, which has no gradient there",
                   "in": {"logp": array(new), "old_logp": array(old), "masked_logp": array(aug), "mask": array(mask), "advantages": array(adv),
                          "mode": {"token": "token-mean", "seq": "seq-mean-token-mean"}[mode], "weight": weight, "surprisal": surprisal},
                   "out": {"loss": float(loss.detach()), "grad_logp": array(lp.grad)}, "tol": {"abs": 1e-9, "rel": 1e-7}}
    finally:
        torch.Tensor.float = keep


def chord(path):
    with open(os.path.join(path, "chord_policy_loss.py")) as f:
        tree = ast.parse(f.read())
    base = type("PolicyLossFn", (), {"__init__": lambda self, backend=None: None})
    register = type("R", (), {"register_module": staticmethod(lambda _: lambda c: c)})
    scope = {"torch": torch, "math": math, "PolicyLossFn": base, "POLICY_LOSS_FN": register, "Tuple": type("T", (), {"__class_getitem__": lambda *_: object}), "Dict": dict,
             "masked_mean": lambda v, m, axis=None: (v * m).sum(axis=axis) / (m.sum(axis=axis) + 1e-8)}  # trinity/algorithm/utils.py
    body = [n for n in tree.body if getattr(n, "name", "") in ("mu_schedule_function", "phi_function", "SFTPhiLossFn")]
    exec(compile(ast.Module(body, []), path, "exec"), scope)
    torch.set_default_dtype(torch.float64)
    rng = np.random.default_rng(17)
    for name, tokens, mode in (("token", True, "token-mean"), ("seq", False, "seq-mean-token-mean")):
        logp = -rng.exponential(0.9, (4, 6))
        mask = (np.arange(6) < rng.integers(1, 7, (4, 1))).astype(float)
        lp = torch.tensor(logp).clone().requires_grad_()
        loss, _ = scope["SFTPhiLossFn"](use_token_level_loss=tokens)(lp, torch.tensor(mask))
        loss.backward()
        yield {"name": "loss_chord/" + name, "op": "methods.loss_chord", "source": "Trinity-RFT trinity/algorithm/policy_loss_fn/chord_policy_loss.py",
               "note": "SFTPhiLossFn in float64", "in": {"logp": array(logp), "mask": array(mask), "mode": mode},
               "out": {"loss": float(loss.detach()), "grad_logp": array(lp.grad)}, "tol": {"abs": 1e-9, "rel": 1e-7}}
    for name, warmup, decay, peak, valley in (("decayed", 4, 8, 0.9, 0.05), ("at_once", 0, 5, 0.5, 0.02), ("constant", 0, 0, 0.1, 0.1)):
        steps = list(range(16))
        yield {"name": "mu_chord/" + name, "op": "methods.mu_chord", "source": "Trinity-RFT trinity/algorithm/policy_loss_fn/chord_policy_loss.py",
               "note": "mu_schedule_function", "in": {"steps": array(steps), "warmup": warmup, "decay": decay, "peak": peak, "valley": valley},
               "out": {"mu": array([scope["mu_schedule_function"](s, warmup, decay, peak, valley) for s in steps])}, "tol": {"abs": 1e-12, "rel": 1e-12}}


def g2rpoa(path):
    file = os.path.join(path, "src/G2RPO-A/trainer/g2rpoa_trainer.py")
    with open(file) as f:
        tree = ast.parse(f.read())
    classes = [n for n in tree.body if isinstance(n, ast.ClassDef)]
    update = [m for c in classes for m in c.body if getattr(m, "name", "") == "_compute_new_guidance_length"]
    callback = [c for c in classes if c.name == "GuidanceLengthUpdateCallback"]
    scope = {"TrainerCallback": object, "broadcast_object_list": lambda all, from_process: all, "print": lambda *_: None}
    exec(compile(ast.Module(update + callback, []), file, "exec"), scope)
    rng = np.random.default_rng(23)
    falling = np.linspace(0.9, 0.05, 18)
    for name, tokens, most, accuracy in [
        ("drawn", 3072, 3072, rng.random(30)), ("short", 64, 3072, rng.random(24)), ("rising", 512, 3072, falling[::-1]), ("falling", 12, 200, falling),
        ("hopeless", 100, 3072, np.array([0.5, 0.25, 0, 0, 0, 0.5, 0, 0.5, 0.25, 0.5, 0.5, 0.5])),
        ("solved", 700, 3072, np.array([0.01, 0.0, 1, 0.01, 0.01, 1, 0.01, 0.01, 1])), ("whole", 9, 11, np.round(rng.random(27) * 70) / 70),
    ]:
        trainer = type("Trainer", (), {"_compute_new_guidance_length": scope["_compute_new_guidance_length"]})()
        trainer.accelerator = type("Accelerator", (), {"is_main_process": True})()
        trainer.guidance_length, trainer.max_guidance_length, trainer._prev_accuracy_rewards = tokens, most, []
        ends, lengths = scope["GuidanceLengthUpdateCallback"](trainer), []
        for step, a in enumerate(accuracy, 1):
            trainer._step_accuracies = [float(a)]
            ends.on_step_end(None, type("State", (), {"global_step": step})(), None)
            lengths.append(trainer.guidance_length)
        yield {"name": "guidance/" + name, "op": "methods.guidance", "source": "G2RPO-A src/G2RPO-A/trainer/g2rpoa_trainer.py",
               "note": "GuidanceLengthUpdateCallback and _compute_new_guidance_length, one process", "in": {"tokens": tokens, "most": most, "accuracy": array(accuracy)},
               "out": {"lengths": array(lengths)}, "tol": {"abs": 0, "rel": 0}}


def treegrpo(path):
    compute = function(os.path.join(path, "verl/trainer/ppo/core_algos.py"), "compute_grpo_outcome_advantage", {"torch": torch, "defaultdict": defaultdict})
    torch.set_default_dtype(torch.float64)
    rng = np.random.default_rng(29)
    for name, prompts, trees, leaves, draw in [
        ("binary", 3, 2, 3, lambda n: (rng.random(n) < 0.5).astype(float)), ("graded", 2, 3, 4, rng.random), ("one_tree", 2, 1, 5, rng.random),
        ("alike", 2, 2, 3, lambda n: np.repeat([1.0, 0.0, 1.0, 1.0], n // 4)), ("signed", 2, 2, 5, lambda n: rng.normal(size=n)),
    ]:
        n = prompts * trees * leaves
        rewards, group, tree = draw(n), np.arange(n) // (trees * leaves), np.arange(n) // leaves
        both = [compute(torch.tensor(rewards)[:, None].clone(), torch.ones(n, 1), index)[0][:, 0] for index in (group, tree)]
        yield {"name": "adv_tree_grpo/" + name, "op": "methods.adv_tree_grpo", "source": "Tree-GRPO verl/trainer/ppo/core_algos.py",
               "note": "compute_grpo_outcome_advantage in float64, over prompts and over trees, added as ray_trainer_ts.py does",
               "in": {"rewards": array(rewards), "group": array(group), "tree": array(tree)}, "out": {"advantages": array(both[0] + both[1])},
               "tol": {"abs": 1e-12, "rel": 1e-10}}


# What makes each file's cases, by the argument that names the upstream.
FAMILIES = {"advantages": {"bnpo": bnpo, "pkpo": pkpo, "spo": spo, "dars": dars, "gigpo": gigpo, "pfppo": pfppo},
            "losses": {"gepo": hetero, "papo": papo, "chord": chord}, "episodes": {"g2rpoa": g2rpoa, "treegrpo": treegrpo}}
PREFIXES = {"gepo": ("loss_gepo/", "loss_delta_l/"), "papo": ("loss_papo/",), "chord": ("loss_chord/", "mu_chord/"), "bnpo": ("adv_bnpo/",),
            "pkpo": ("adv_maxatk/",), "spo": ("adv_spo/",), "dars": ("further_dars/",), "gigpo": ("adv_gigpo/",), "pfppo": ("select_pf_ppo/",),
            "g2rpoa": ("guidance/",), "treegrpo": ("adv_tree_grpo/",)}


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    for family in FAMILIES.values():
        for name in family:
            parser.add_argument("--" + name)
    parser.add_argument("--out", required=True)
    args = parser.parse_args()
    os.makedirs(args.out, exist_ok=True)
    for name, made in FAMILIES.items():
        file, before = os.path.join(args.out, name + ".json"), []
        if os.path.exists(file):
            with open(file) as f:
                before = json.load(f)["cases"]
        cases = []
        for which, make in made.items():
            path = getattr(args, which)
            cases += make(path) if path else [c for c in before if c["name"].startswith(PREFIXES[which])]
        with open(file, "w") as f:
            json.dump({"family": "methods", "doc": name + " of methods, by their authors' code", "cases": cases}, f, indent=1)
            f.write("\n")
