#!/usr/bin/env python3
"""An environment of verifiers (PrimeIntellect-ai/verifiers, its classic environments) as a tool with a state.

    python3 verifiers_env.py wordle --prompts prompts.jsonl       # the list for rollout.prompts: a line a row

    [[episode.tool]]
    name = "game"
    command = ["python3", "examples/environments/verifiers_env.py", "wordle", "--args", "{}"]
    state = true

    [[reward]]
    name = "environment"

A call {"text": "..."} is what the model says to the environment; {"tool": "search", "arguments": {...}} calls one of the
environment's tools, and so does any object where the environment has a tool of this tool's name. At the end the model's
last turn is said as well, and the environment's rubric scores the conversation. A function of the rubric that raises
counts as 0 in verifiers; here the episode is missing. Rubrics that compare a group's rollouts are refused.
"""
import argparse
import asyncio
import json
import logging
import sys

import verifiers as vf

from lines import Episodes, serve


class Elsewhere(vf.Client):
    """The model is asked by Darkroom, never by the environment."""

    def __init__(self):
        super().__init__(None)

    async def nobody(self, *args, **kwargs):
        raise RuntimeError("the environment asks the model itself, which is not possible here")

    to_native_tool = to_native_prompt = get_native_response = raise_from_native_response = from_native_response = nobody

    def setup_client(self, config):
        return None

    async def close(self):
        pass


class Errors(logging.Handler):
    """What verifiers logs as an error: functions of a rubric that raised."""

    def __init__(self):
        super().__init__(logging.ERROR)
        self.seen = []

    def emit(self, record):
        self.seen.append(record.getMessage())


def field(x, name):
    return x.get(name) if isinstance(x, dict) else getattr(x, name, None)


def shown(messages):
    """What messages say, as an answer."""
    texts, images = [], []
    for message in messages:
        content = field(message, "content")
        for part in content if isinstance(content, list) else [{"type": "text", "text": content or ""}]:
            if field(part, "type") == "image_url":
                images.append(field(field(part, "image_url"), "url"))
            else:
                texts.append(field(part, "text") or "")
    return {"text": "\n".join(texts), **({"images": images} if images else {})}


class Game:
    def __init__(self, env, loop, row):
        self.env, self.run, self.done, self.calls = env, loop.run_until_complete, False, 0
        state = self.run(env.init_state(row, Elsewhere(), "darkroom"))
        self.state = self.run(env.setup_state(state)) or state
        self.prompt = list(self.run(env.get_prompt_messages(self.state)))

    def say(self, message):
        """Adds what the model said; false where the environment is over."""
        self.run(self.env.add_trajectory_step(self.state, {
            "prompt": self.prompt, "completion": [message], "response": None, "tokens": None, "reward": None, "advantage": None,
            "is_truncated": False, "trajectory_id": self.state.get("trajectory_id"), "extras": {}}))
        self.done = self.run(self.env.is_completed(self.state))
        if self.state.get("error") is not None:
            raise self.state["error"]
        return not self.done

    def call(self, tool, arguments):
        if self.done:
            return {"error": "the environment has ended: give your answer"}
        if list(arguments) == ["text"]:
            message = vf.AssistantMessage(content=arguments["text"])
        else:
            if set(arguments) == {"tool", "arguments"}:
                tool, arguments = arguments["tool"], arguments["arguments"]
            self.calls += 1
            call = vf.ToolCall(id=f"call_{self.calls}", name=tool, arguments=json.dumps(arguments))
            message = vf.AssistantMessage(content="", tool_calls=[call])
        if not self.say(message):
            return {"text": "the environment has ended"}
        after = list(self.run(self.env.get_prompt_messages(self.state)))
        new, self.prompt = after[len(self.prompt) + 1:], after
        self.done = self.state.get("final_env_response") is not None
        return shown(new or self.state.get("final_env_response") or [])

    def end(self, reply):
        if not self.done and reply:
            self.say(vf.AssistantMessage(content=reply))
        errors = Errors()
        logging.getLogger("verifiers").addHandler(errors)
        try:
            self.run(self.env.cleanup(self.state))
            self.run(self.env.rubric.score_rollout(self.state))
            self.run(self.env.rubric.cleanup(self.state))
        finally:
            logging.getLogger("verifiers").removeHandler(errors)
        if errors.seen:
            raise RuntimeError(errors.seen[0])
        return self.state["reward"]


def main():
    p = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    p.add_argument("environment", help="as verifiers loads it")
    p.add_argument("--args", type=json.loads, default={}, help="the environment's arguments, JSON")
    p.add_argument("--prompts", help="write the environment's rows to this file as a list of prompts, and end")
    o = p.parse_args()
    env = vf.load_environment(o.environment, **o.args)
    rows = env.get_dataset()
    if o.prompts:
        with open(o.prompts, "w") as f:
            for i, row in enumerate(rows):
                print(json.dumps({"prompt": [dict(m) for m in row["prompt"]], "row": i}), file=f)
        return
    if env.requires_group_rollouts:
        sys.exit(f"{o.environment} compares the rollouts of a group, and here each is scored by itself")
    loop = asyncio.new_event_loop()
    serve(Episodes(lambda name, reset: Game(env, loop, dict(rows[reset["meta"]["row"]]))).answer)


if __name__ == "__main__":
    main()
