#!/usr/bin/env python3
"""An environment of OpenEnv (meta-pytorch/OpenEnv) as a tool with a state.

    [[episode.tool]]
    name = "game"
    command = ["python3", "examples/environments/openenv_env.py", "http://localhost:8000", "--image", "screenshot"]
    state = true

    [[reward]]
    name = "environment"

A call's arguments are the action; {} looks at the last observation again, after reset at the first, and does nothing.
The model reads the observation as JSON, its pictures (--image names their keys, base64) beside it. The episode is worth
the sum of its steps' rewards, or with --reward last the last of them; without any it is missing. Each episode has a
session of its own, begun with its seed.
"""
import argparse
import json

from openenv.core import GenericEnvClient

from lines import Episodes, serve


class Game:
    def __init__(self, o, name, reset):
        self.o, self.rewards = o, []
        self.env = GenericEnvClient(base_url=o.url).sync()
        self.env.connect()
        self.take(self.env.reset(seed=reset["seed"], episode_id=name))

    def take(self, result):
        self.seen, self.done = result.observation, result.done
        if result.reward is not None:
            self.rewards.append(float(result.reward))

    def shown(self):
        images = [self.seen[key] for key in self.o.image if self.seen.get(key)]
        rest = {key: value for key, value in self.seen.items() if key not in self.o.image}
        text = json.dumps(rest) + ("\nThe environment has ended: give your answer." if self.done else "")
        return {"text": text, **({"images": images} if images else {})}

    def call(self, tool, arguments):
        if arguments and self.done:
            return {"error": "the environment has ended: give your answer"}
        if arguments:
            try:
                self.take(self.env.step(arguments))
            except RuntimeError as e:  # the server's word about the action; a session that broke raises others
                if "VALIDATION_ERROR" not in str(e):
                    raise
                return {"error": str(e)}
        return self.shown()

    def end(self, reply):
        self.env.close()
        if not self.rewards:
            return None
        return self.rewards[-1] if self.o.reward == "last" else sum(self.rewards)


def main():
    p = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    p.add_argument("url", help="of the environment's server")
    p.add_argument("--image", action="append", default=[], help="a key of observations that holds a picture, base64")
    p.add_argument("--reward", choices=["sum", "last"], default="sum")
    o = p.parse_args()
    serve(Episodes(lambda name, reset: Game(o, name, reset)).answer)


if __name__ == "__main__":
    main()
