"""How Darkroom speaks with a program behind [[episode.tool]]: a line of JSON in, a line of JSON out, with the same n.

serve() is for any tool. Episodes is for environments (state = true): it begins a game where an episode begins, gives it
the calls, and asks it at the end what the episode was worth. A game is an object with

    call(tool, arguments)   ->  {"text": ..., "images": [base64, ...]}, or {"error": ...}, which the model reads
    end(reply)              ->  a number, or None; reply is what the model said last

An exception is no answer: the episode is missing, never 0.
"""
import json
import os
import sys


def serve(answer):
    """Answers every line; what libraries print goes to stderr."""
    out = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    for line in sys.stdin:
        request = json.loads(line)
        try:
            reply = answer(request)
        except Exception as e:
            why = f"{type(e).__name__}: {e}"
            reply = {"failed": why} if "arguments" in request else {"error": why}
        print(json.dumps({"n": request["n"], **reply}), file=out, flush=True)


class Episodes:
    """The episodes under way. A request that is sent again is answered as before, and nothing is done twice."""

    def __init__(self, begin):
        self.begin, self.games, self.last = begin, {}, {}

    def answer(self, request):
        name = request["episode"]
        if "reset" in request:
            if name not in self.games:
                self.games[name] = self.begin(name, request["reset"])
            return {}
        step = request.get("call", "end")
        if self.last.get(name, (None,))[0] != step:
            self.last[name] = (step, self.step(name, request))
            while len(self.last) > 4096:  # of episodes that ended long ago
                self.last.pop(next(iter(self.last)))
        return self.last[name][1]

    def step(self, name, request):
        if name not in self.games:
            raise KeyError(f"episode {name} did not begin here")
        if "arguments" in request:
            return self.games[name].call(request["tool"], request["arguments"])
        reward = self.games.pop(name).end(request.get("reply", ""))  # it is over, even where its end fails
        return {} if reward is None else {"reward": float(reward)}
