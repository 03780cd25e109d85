"""Golden cases of conversations as templates of models that think write them: Qwen3-VL-Thinking, Qwen3.5, Qwen3.6.

    pip install transformers jinja2
    git clone https://github.com/huggingface/trl
    python3 chat.py --src FOLDER --seed 1 --out ../golden/vlm            # the recorded cases
    python3 chat.py --src FOLDER --seed 2 --random 1500 --out /tmp/chat  # conversations put together at random

FOLDER holds qwen3_vl_thinking.jinja, qwen3_5_think.jinja, qwen3_5_nothink.jinja and qwen3_6.jinja as published (the last
three are in trl/trl/chat_templates). With --all the older three are rendered too. transformers' own environment for
templates renders them; a conversation that a template refuses is left out.
"""
import argparse
import json
import os

import numpy as np
import transformers
from transformers.utils.chat_template_utils import _compile_jinja_template

THINK = ["qwen3_vl_thinking", "qwen3_5_think", "qwen3_5_nothink", "qwen3_6"]
OLDER = ["qwen2_5_vl", "qwen3_vl", "qwen2_5"]
ZOOM = {"type": "function", "function": {"name": "image_zoom_in_tool", "description": "Zoom in on <a> region.", "parameters": {"type": "object", "properties": {"bbox_2d": {"type": "array", "items": {"type": "number"}}, "label": {"type": "string", "description": "étiquette"}}, "required": ["bbox_2d"]}}}
TURN = {"type": "function", "function": {"name": "rotate", "parameters": {"type": "object", "properties": {"angle": {"type": "integer"}}}}}
I, V = {"type": "image"}, {"type": "video"}


def T(s):
    return {"type": "text", "text": s}


def user(*parts):
    return {"role": "user", "content": parts[0] if len(parts) == 1 and isinstance(parts[0], str) else list(parts)}


def said(content, **more):
    return {"role": "assistant", "content": content, **more}


def called(name, **given):
    return {"type": "function", "function": {"name": name, "arguments": given}}


def told(*parts):
    return {"role": "tool", "content": parts[0] if len(parts) == 1 and isinstance(parts[0], str) else list(parts)}


def system(s):
    return {"role": "system", "content": s}


def fixed():
    zoom = called("image_zoom_in_tool", bbox_2d=[1, 2.5, 30, 4], label='a "quoted" <thing> é')
    odd = called("f", whole=3, real=1e5, yes=True, no=None, text="a\nb", table={"b": [True, None, 1.0], "a": "x"}, empty="")
    yield "text", [user("What colour is the cup?")], None
    yield "image", [user(I, T("What is it?"))], None
    yield "clip_and_images", [user(V, I, T(" How many? "), I)], None
    yield "system", [system(" Be brief. \n"), user(I, T("What is it?"))], None
    yield "system_parts", [system([T("A system "), T("in parts.")]), user("这是什么？")], None
    yield "system_empty_tools", [system("  "), user("x")], [ZOOM]
    yield "tools", [user(I, T("What?"))], [ZOOM, TURN]
    yield "tools_system", [system("Be brief."), user(I, T("What?"))], [ZOOM]
    yield "space", [user("  leading and trailing \n"), said(" \n so \n "), user("\x1f\u00a0x\u3000")], None
    yield "earlier_thought", [user("a"), said("<think>\nsome\n</think>\n\nb"), user("c"), said("<think>\nmore \n</think>\n\nd")], None
    yield "thought_apart", [user("a"), said("b", reasoning_content="\n why \n"), user("c"), said("d", reasoning_content="and how")], None
    yield "thought_open", [user("a"), said("no beginning</think>\n\nb </think> c")], None
    yield "thought_never_ends", [user("a"), said("<think>\nb")], None
    yield "thought_empty", [user("a"), said("<think>\n\n</think>\n\nb")], None
    yield "thought_none", [user("a"), said("b", reasoning_content=None)], None
    yield "round", [user(I, T("What?")), said("<think>\nI look.\n</think>\n\nI zoom.", tool_calls=[zoom]), told(I, T("the crop")), said("<think>\nred\n</think>\n\nRed.")], [ZOOM]
    yield "round_unthought", [user(I, T("What?")), said("I zoom.", tool_calls=[zoom]), told(I), said("Red."), user("Sure?"), said("Yes.")], [ZOOM]
    yield "calls_alone", [user("x"), said("", tool_calls=[zoom, odd]), told("1"), told(I, T("2"))], [ZOOM]
    yield "calls_thought", [user("x"), said("", reasoning_content="think", tool_calls=[odd]), told("1")], [ZOOM]
    yield "no_arguments", [user("x"), said("go", tool_calls=[called("f")]), told("")], None
    yield "plain_call", [user("x"), said("", tool_calls=[{"name": "f", "arguments": {"a": 1}}])], None
    yield "text_arguments", [user("x"), said("", tool_calls=[{"name": "f", "arguments": "{\"a\": 1}"}])], None
    yield "reply_as_user", [user(I, T("What?")), said("call"), user(T("<tool_response>\n"), I, T("\n</tool_response>")), said("<think>\na\n</think>\n\nb")], None
    yield "replies_alone", [user("<tool_response>x</tool_response>"), said("<think>a</think>b")], None
    yield "tool_first", [told("x"), user("y"), said("z")], None
    yield "second_system", [user("a"), system("later"), said("b")], None
    yield "first_is_said", [said("hello"), user("a"), said("<think>\nx\n</think>\n\nb")], None
    yield "referee", [user("a"), {"role": "referee", "content": "stop"}], None
    yield "picture_said", [user("draw"), said([T("here "), I])], None
    yield "no_content", [user("a"), said(None, tool_calls=[zoom])], None
    yield "url_keys", [user({"type": "x", "image": "a.png"}, {"type": "image_url", "image_url": {"url": "u"}}, T("both"))], None
    yield "many", [user(I, T("0"))] + [m for i in range(3) for m in (said("<think>\n%d\n</think>\n\nstep %d" % (i, i), tool_calls=[called("rotate", angle=i)]), told(T("seen %d " % i), I))] + [said("end")], [TURN]


def drawn(rng, n):
    words = ["a", " b", "\n", "<think>", "</think>", "\n</think>\n\n", "<tool_response>", "</tool_response>", "é", "<x & 'y'>", "  ", "\u3000", "{{ 1 }}", "<|im_end|>"]
    pick = lambda xs: xs[int(rng.integers(len(xs)))]
    text = lambda: "".join(pick(words) for _ in range(int(rng.integers(0, 5))))

    def content(pictures=True):
        if rng.random() < 0.4:
            return text()
        return [pick([T(text()), T(text()), I, V] if pictures else [T(text())]) for _ in range(int(rng.integers(0, 4)))]

    def value(deep=0):
        kinds = [text(), int(rng.integers(-9, 10**6)), float(rng.normal()), True, None, 1e22, ""]
        if deep < 2 and rng.random() < 0.4:
            return [value(deep + 1) for _ in range(int(rng.integers(0, 3)))] if rng.random() < 0.5 else {text() + str(i): value(deep + 1) for i in range(int(rng.integers(0, 3)))}
        return pick(kinds)

    for i in range(n):
        messages = [system(content(False))] if rng.random() < 0.3 else []
        messages.append(user(T(text())) if rng.random() < 0.9 else said("x"))
        for _ in range(int(rng.integers(0, 6))):
            role = pick(["user", "assistant", "assistant", "tool", "tool"] + (["system", "other"] if rng.random() < 0.05 else []))
            m = {"role": role, "content": content()}
            if role == "assistant":
                if rng.random() < 0.3:
                    m["reasoning_content"] = text()
                if rng.random() < 0.5:
                    m["tool_calls"] = [called(pick(["f", "zoom"]), **{"k%d" % j: value() for j in range(int(rng.integers(0, 3)))}) for _ in range(int(rng.integers(0, 3)))]
            messages.append(m)
        yield "random_%d" % i, messages, pick([None, [], [ZOOM], [ZOOM, TURN]])


def options(name, form, rng, random):
    plain = {"add_generation_prompt": False, "add_vision_id": False}
    if random:
        o = {k: bool(rng.random() < 0.5) for k in plain}
        if form in THINK[1:]:
            o["enable_thinking"] = bool(rng.random() < 0.5)
        if form == "qwen3_6" and rng.random() < 0.5:
            o["preserve_thinking"] = True
        return [o]
    all = [{**plain, "add_generation_prompt": True}, plain]
    if name == "clip_and_images":
        all = [{**plain, "add_vision_id": True}]
    if name in ("text", "round") and form in THINK[1:]:
        all += [{**plain, "add_generation_prompt": True, "enable_thinking": on} for on in (True, False)]
    if form == "qwen3_6" and "thought" in name:
        all.append({**plain, "preserve_thinking": True})
    return all if len(name) < 8 or form == "qwen3_6" else all[-1:]


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--src", required=True)
    p.add_argument("--out", required=True)
    p.add_argument("--seed", type=int, default=1)
    p.add_argument("--random", type=int, default=0)
    p.add_argument("--all", action="store_true")
    a = p.parse_args()
    rng, cases, refused = np.random.default_rng(a.seed), [], 0
    talks = list(drawn(rng, a.random) if a.random else fixed())
    for form in (OLDER if a.all else []) + THINK:
        with open(os.path.join(a.src, form + ".jinja"), encoding="utf-8") as f:
            template = _compile_jinja_template(f.read())
        for name, messages, tools in talks:
            if form == "qwen2_5":
                messages = [dict(m, content="".join(c.get("text", "") for c in m["content"]) if isinstance(m["content"], list) else m["content"]) for m in messages]
            for n, o in enumerate(options(name, form, rng, a.random)):
                try:
                    text = template.render(messages=messages, tools=tools, **o)
                except Exception:
                    refused += 1
                    continue
                cases.append({"name": f"{form}/{name}/{n}", "op": "vlm.chat_template", "source": f"{form}.jinja rendered by transformers=={transformers.__version__}",
                              "note": "", "in": {"template": form, "messages": messages, "tools": tools, **o}, "out": {"text": text}, "tol": {"abs": 0, "rel": 0}})
    os.makedirs(a.out, exist_ok=True)
    path = os.path.join(a.out, "chat_think.json")
    with open(path, "w", encoding="utf-8") as f:
        f.write('{"family": "chat_think", "doc": "chat templates of models that think", "cases": [\n')
        f.write(",\n".join(json.dumps(c, ensure_ascii=False) for c in cases) + "\n]}\n")
    print(f"{path}: {len(cases)} cases, {refused} refused by the templates")


if __name__ == "__main__":
    main()
