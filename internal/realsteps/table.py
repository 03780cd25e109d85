"""A table of the rows that beside.sh or homes.sh wrote: the better turn of ours and of PyTorch's, the median where
there are more than two, and geometric means."""
import json
import math
import statistics
import sys

rows, name, variants = {}, "", set()
for line in open(sys.argv[1]):
    found = json.loads(line)
    if "name" in found:
        name = found["name"]
        if found["variant"]:
            variants.add(name)
        continue
    ours = found["by"] == "darkroom"
    for what in ("sampling", "training", "reading", "writing"):
        if what in found:
            rows.setdefault((name, what), ([], []))[0 if ours else 1].append(found[what])

print("| | ours, s (CPU s) | PyTorch | times as fast | by CPU | peak, MiB | PyTorch | share |")
print("|---|---|---|---|---|---|---|---|")
faster, spent = [], []
for (name, what), both in rows.items():
    if not all(both):
        print(f"| {name}, {what} | not measured on one side | | | | | | |")
        continue
    t, c, m = ([min(f[key] for f in side) for side in both] for key in ("seconds", "cpu_seconds", "peak_mib"))
    times, by_cpu = t[1] / t[0], c[1] / c[0]
    if name not in variants:
        faster.append(times)
        spent.append(by_cpu)
    share = f"{m[0] / m[1]:.2f}" if m[1] else ""
    middle = ["", ""]
    if min(map(len, both)) > 2:
        middle = [f", median {statistics.median(f['seconds'] for f in side):.2f} ({statistics.median(f['cpu_seconds'] for f in side):.1f})" for side in both]
    print(f"| {name}, {what} | {t[0]:.2f} ({c[0]:.1f}){middle[0]} | {t[1]:.2f} ({c[1]:.1f}){middle[1]} | {times:.2f} | {by_cpu:.2f} | {m[0]} | {m[1]} | {share} |")
if faster:
    mean = lambda x: math.exp(sum(map(math.log, x)) / len(x))
    print(f"| geometric mean (worst) | | | {mean(faster):.2f} ({min(faster):.2f}) | {mean(spent):.2f} ({min(spent):.2f}) | | | |")
