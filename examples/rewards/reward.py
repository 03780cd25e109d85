#!/usr/bin/env python3
"""A reward as a program: how much of the picture is red, where the prompt asks for red.

    [[reward]]
    name = "exec"
    command = "python3 examples/rewards/reward.py"

Darkroom starts the program once and writes a request a line; each gets a reply a line:

    {"n": 1, "protocol": 1, "items": [{"prompt": "a red cup", "meta": {}, "image": "<a PNG in base64>"}, ...]}
    {"n": 1, "scores": [{"value": 0.7, "parts": {"red": 0.7}}, {"missing": "why there is no score"}]}

Copy it and replace score(). Larger is better. What cannot be judged is missing, never 0. Print to stderr,
never to stdout: Darkroom shows it when the program fails.
"""
import base64
import json
import struct
import sys
import zlib


def pixels(png):
    """The rows of an 8-bit PNG as (channels, [bytes, ...]). With Pillow: Image.open(io.BytesIO(png)).convert("RGB")."""
    data, at, width, height, channels = b"", 8, 0, 0, 0
    while at < len(png):
        length, kind = struct.unpack(">I4s", png[at:at + 8])
        body = png[at + 8:at + 8 + length]
        if kind == b"IHDR":
            width, height, depth, colour, _, _, interlaced = struct.unpack(">IIBBBBB", body)
            channels = {0: 1, 2: 3, 6: 4}.get(colour, 0)
            if depth != 8 or not channels or interlaced:
                raise ValueError("a PNG of 8 bits a channel, grey or RGB, is needed")
        elif kind == b"IDAT":
            data += body
        at += 12 + length
    raw, stride, rows, above = zlib.decompress(data), width * channels, [], bytearray(width * channels)
    for y in range(height):
        filtered, row = raw[y * (stride + 1)], bytearray(raw[y * (stride + 1) + 1:(y + 1) * (stride + 1)])
        for i in range(stride):
            left = row[i - channels] if i >= channels else 0
            corner = above[i - channels] if i >= channels else 0
            near = min((abs(above[i] - corner), 0, left), (abs(left - corner), 1, above[i]), (abs(left + above[i] - 2 * corner), 2, corner))[2]
            row[i] = (row[i] + (0, left, above[i], (left + above[i]) // 2, near)[filtered]) % 256
        rows.append(bytes(row))
        above = row
    return channels, rows


def score(item):
    if "red" not in item["prompt"].lower().split():
        return {"missing": "the prompt asks for no red"}
    if "image" not in item:
        return {"missing": "only pictures can be judged"}
    channels, rows = pixels(base64.b64decode(item["image"]))
    red = total = 0
    for row in rows:
        for i in range(0, len(row), channels):
            r, g, b = row[i], row[i + min(1, channels - 1)], row[i + min(2, channels - 1)]
            red += r > 128 and g < 96 and b < 96
            total += 1
    return {"value": red / total, "parts": {"red": red / total}, "evidence": [{"what": "red pixels", "text": str(red)}]}


def answer(request):
    scores = []
    for item in request["items"]:
        try:
            scores.append(score(item))
        except Exception as e:  # one item that fails must not cost the others their scores
            scores.append({"missing": f"{type(e).__name__}: {e}"})
    return scores


if __name__ == "__main__":
    for line in sys.stdin:
        request = json.loads(line)
        print(json.dumps({"n": request["n"], "scores": answer(request)}), flush=True)
