"""What is handed to the interpreter that [episode.exec] names: it runs the blocks of code that a model writes.

Where the command ends in "-", which is where Python would read a program, this text stands there as "-c TEXT". A command that
ends otherwise speaks the protocol itself. Each line of standard input is a request, each line of standard output its reply:

    {"n": 1, "begin": {"pictures": ["base64 of a PNG"], "seed": 7, "modules": ["PIL"]}}
    {"n": 1, "ready": "Python 3.12.1", "missing": []}
    {"n": 2, "run": {"code": "print(6*7)", "seconds": 30, "output": 16384, "pictures": 8}}
    {"n": 2, "text": "42", "cut": false, "images": ["base64 of a PNG", null], "dropped": 0, "figures": 3}
    {"n": 3, "error": "division by zero"}

n is the request's number. A picture that is null could not be read; dropped are those beyond the limit; figures counts all
that there are by now, the prompt's included. At the end of standard input the program leaves.

What a block may count on is what PyVision-RL's SafeImageRuntime gives (safe_persis_python_exe_tool_w_image_hint.py): one
namespace over an episode; matplotlib (Agg), plt, Image, io, base64 and np; the prompt's pictures as image_clue_0, ... (DeepEyesV2 calls
them image_1, ...); and plt.show(), which shows the figure to the model. Text is what was printed, stripped. An exception is told by its str.
Differences: every picture of the prompt has a number of its own (there, all are image_clue_0); exit() is an error, not the
end; what is printed is kept up to a limit; random and numpy.random begin at a seed. Standard input is empty, and what goes
around sys.stdout, or to standard error, is thrown away, as it never reached the model there either.
"""
import base64
import contextlib
import io
import json
import os
import platform
import random
import re
import signal
import sys

HEADERS = [
    "import matplotlib",
    "matplotlib.use('Agg')",
    "import matplotlib.pyplot as plt",
    "from PIL import Image",
    "import io",
    "import base64",
    "import numpy as np",
    """def _internal_capture_plt_figure():
    '''Capture current matplotlib figure and save to _captured_figures'''
    fig = plt.gcf()
    width_px = fig.get_figwidth() * fig.dpi
    height_px = fig.get_figheight() * fig.dpi
    aspect_ratio = max(width_px, height_px) / min(width_px, height_px)
    if aspect_ratio >= 200:
        raise RuntimeError(f"Image aspect ratio too extreme: {aspect_ratio:.2f} (must be < 200)")
    buf = io.BytesIO()
    plt.savefig(buf, format='png')
    buf.seek(0)
    _captured_image = base64.b64encode(buf.read()).decode('utf-8')
    _captured_figures.append(_captured_image)
    plt.close()
""",
]
FORBIDDEN = re.compile(r"(\s|^)?(input|os\.system|subprocess)\(")
LARGEST = 16 << 20  # bytes of a picture
GRACE = 10  # seconds after which a program ends that nobody waits for any more


class Kept(io.StringIO):
    """Standard output up to a limit."""

    def __init__(self, limit):
        super().__init__()
        self.room, self.cut = limit, False

    def write(self, text):
        kept = text[: self.room]
        self.room -= len(kept)
        self.cut = self.cut or len(kept) < len(text)
        super().write(kept)
        return len(text)


class Runtime:
    """An episode's namespace."""

    def __init__(self, pictures, seed, modules):
        self.names = {"_captured_figures": []}
        for line in HEADERS:
            with contextlib.suppress(Exception):  # what is missing is told below
                exec(line, self.names)
        self.missing = [f"{m} ({why})" for m in modules or [] if (why := fails(m))]
        for i, data in enumerate(pictures or []):
            if "Image" in self.names:
                picture = self.names["Image"].open(io.BytesIO(base64.b64decode(data)))
                self.names[f"image_clue_{i}"] = self.names[f"image_{i + 1}"] = picture
                self.names["_captured_figures"].append(picture)
            else:
                self.names["_captured_figures"].append(None)
        random.seed(seed)
        if "np" in self.names:
            self.names["np"].random.seed(seed)

    def run(self, code, output, pictures):
        kept = Kept(output)
        try:
            before = len(self.figures())
            with contextlib.redirect_stdout(kept):
                self.execute(code)
            total = len(self.figures())
            new = self.figures()[before:]
            return {"text": kept.getvalue().strip(), "cut": kept.cut, "images": [readable(m) for m in new[:pictures]],
                    "dropped": len(new[pictures:]), "figures": total}
        except SystemExit as e:
            return {"error": f"SystemExit: {e}"[:output]}
        except BaseException as e:
            return {"error": said(e)[:output]}

    def execute(self, code):
        if FORBIDDEN.search(code):
            raise RuntimeError("Forbidden function calls detected")
        if sys.stdin is None or sys.stdin.closed:  # exit() closes it
            sys.stdin = open(os.devnull)
        try:
            exec(code.replace("plt.show()", "_internal_capture_plt_figure()"), self.names)
        except BaseException:
            if "matplotlib" in sys.modules:
                with contextlib.suppress(Exception):
                    sys.modules["matplotlib.pyplot"].close("all")
            raise

    def figures(self):
        return self.names.get("_captured_figures", [])


def fails(module):
    """Why a module cannot be imported; None where it can."""
    try:
        __import__(module)
    except Exception as e:
        return f"{type(e).__name__}: {said(e)}".strip()[-300:]


def readable(picture):
    """A captured picture as it is sent; None for what is no picture."""
    try:
        data = base64.b64decode(picture.split(",")[1] if "," in picture else picture)
        return base64.b64encode(data).decode() if len(data) <= LARGEST else None
    except Exception:
        return None


def said(e):
    try:
        return str(e)
    except Exception:
        return type(e).__name__


def main():
    # The program's own ends of the pipes; what code reads and writes around them leads nowhere.
    requests, replies = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    nothing = os.open(os.devnull, os.O_RDWR)
    os.dup2(nothing, 0)
    os.dup2(nothing, 1)
    loads, dumps, alarm = json.loads, json.dumps, getattr(signal, "alarm", lambda seconds: None)  # code may replace them
    runtime = None
    for line in requests:
        request = loads(line)
        reply = {"n": request["n"]}
        if "begin" in request:
            runtime = Runtime(**request["begin"])
            reply.update(ready="Python " + platform.python_version(), missing=runtime.missing)
            os.dup2(nothing, 2)  # from here on it is code that would write there
        else:
            run = request["run"]
            alarm(int(run["seconds"]) + GRACE)
            reply.update(runtime.run(run["code"], run["output"], run["pictures"]))
            alarm(0)
        replies.write(dumps(reply).encode() + b"\n")
        replies.flush()
    os._exit(0)


main()
