"""Operations of PyTorch, timed as internal/opsbeside asks: a line of JSON in, a line of JSON out.

{"op": ..., "shape": [...], "dtype": ..., "threads": N} makes operands; {"calls": N, "own": true} times as many calls,
by the thread's own time or by the clock.
"""
import os

os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")  # a waiting thread takes no core from the other program
import json
import sys
import time

import torch
import torch.nn.functional as F


def linear(m, n, k, dt):
    x, w = torch.randn(m, k, dtype=dt), torch.randn(n, k, dtype=dt)
    return [lambda: F.linear(x, w)]


def linear_dx(m, n, k, dt):
    dy, w = torch.randn(m, n, dtype=dt), torch.randn(n, k, dtype=dt)
    return [lambda: dy @ w]


def linear_dw(m, n, k, dt):
    dy, x = torch.randn(m, n, dtype=dt), torch.randn(m, k, dtype=dt)
    return [lambda: dy.t() @ x]


def attention(b, h, s, d, dt):
    q, k, v = (torch.randn(b, h, s, d, dtype=dt) for _ in range(3))
    return [lambda: F.scaled_dot_product_attention(q, k, v)]


def attention_backward(b, h, s, d, dt):
    with torch.enable_grad():
        q, k, v = (torch.randn(b, h, s, d, dtype=dt, requires_grad=True) for _ in range(3))
        o = F.scaled_dot_product_attention(q, k, v)
    do = torch.randn_like(o)
    return [lambda: torch.autograd.grad(o, (q, k, v), do, retain_graph=True)]


def conv3x3(c, height, width, dt):
    """Both layouts: the better one counts."""
    x, w = torch.randn(1, c, height, width, dtype=dt), torch.randn(c, c, 3, 3, dtype=dt)
    xl, wl = (t.to(memory_format=torch.channels_last) for t in (x, w))
    return [lambda: F.conv2d(x, w, padding=1), lambda: F.conv2d(xl, wl, padding=1)]


def layer_norm(rows, cols, dt):
    x = torch.randn(rows, cols, dtype=dt)
    return [lambda: F.layer_norm(x, (cols,))]


def gelu_tanh(rows, cols, dt):
    x = torch.randn(rows, cols, dtype=dt)
    return [lambda: F.gelu(x, approximate="tanh")]


def softmax(rows, cols, dt):
    x = torch.randn(rows, cols, dtype=dt)
    return [lambda: F.softmax(x, -1)]


def group_norm32(n, c, height, width, dt):
    x = torch.randn(n, c, height, width, dtype=dt)
    xl = x.to(memory_format=torch.channels_last)
    return [lambda: F.group_norm(x, 32), lambda: F.group_norm(xl, 32)]


def logits(rows, cols):
    x = 2.5 * torch.randn(rows, cols)
    x.view(-1)[7::1999] += 12
    return x


def spoken(x):
    """A token, its log-probability and the entropy."""
    logp = F.log_softmax(x, -1)
    p = logp.exp()
    token = torch.multinomial(p, 1)
    return token, logp.gather(-1, token), torch.special.entr(p).sum(-1)


def draw(rows, cols, dt):
    x = logits(rows, cols)
    return [lambda: spoken(x)]


def draw_top_k(rows, cols, dt):
    x = logits(rows, cols)

    def run():
        least = torch.topk(x, 50).values[..., -1:]
        return spoken(x.masked_fill(x < least, -float("inf")))

    return [run]


def draw_top_p(rows, cols, dt):
    """As transformers' TopPLogitsWarper does."""
    x = logits(rows, cols)

    def run():
        ordered, index = torch.sort(x)
        drop = ordered.softmax(-1).cumsum(-1) <= 0.1
        drop[..., -1:] = False
        return spoken(x.masked_fill(drop.scatter(1, index, drop), -float("inf")))

    return [run]


OPS = {f.__name__: f for f in (linear, linear_dx, linear_dw, attention, attention_backward, conv3x3, layer_norm, gelu_tanh, softmax,
                               group_norm32, draw, draw_top_k, draw_top_p)}


def main():
    print(json.dumps({"version": torch.__version__}), flush=True)
    runs = []
    with torch.no_grad():
        for line in sys.stdin:
            q = json.loads(line)
            if "op" in q:
                make = OPS.get(q["op"])
                torch.set_num_threads(q["threads"])
                runs = make(*q["shape"], getattr(torch, q["dtype"])) if make else []
                print(json.dumps({"forms": len(runs)}), flush=True)
                continue
            times = []
            for run in runs:
                clock = time.thread_time if q["own"] else time.perf_counter
                start = clock()
                for _ in range(q["calls"]):
                    run()
                times.append(1e3 * (clock() - start) / q["calls"])
            print(json.dumps({"ms": min(times)}), flush=True)


if __name__ == "__main__":
    main()
