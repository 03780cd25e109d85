"""What runs have trained, loaded by the upstream libraries: the same pixels, the same answers.

    python internal/exports/check.py DARKROOM FOLDER-OF-SMALL-MODELS [PART...]

pictures.py trains generators and compares pictures with diffusers', answers.py a vision-language model and compares
tokens and log-probabilities with transformers' and PEFT's, clips.py trains two networks that take turns and compares
clips with diffusers', asks.py asks folders as they are published. A PART is "answers", "asks" or a folder's name, such
as pipe_flux; without one all are checked. Prints a table; exits 1 where something differs.
Needs torch, diffusers, transformers, peft, safetensors, pillow.
"""
import os, subprocess, sys, tempfile
sys.dont_write_bytecode = True
import answers, asks, clips, pictures


class Check:
    def __init__(self, darkroom, models):
        self.darkroom, self.models = os.path.abspath(darkroom), os.path.abspath(models)
        self.rows, self.failed = [], False

    def run(self, *args):
        r = subprocess.run([self.darkroom, *args], capture_output=True, text=True)
        if r.returncode:
            raise RuntimeError(f"darkroom {' '.join(args)}: {r.stderr}")
        return r.stdout

    def say(self, what, layout, ok, apart):
        self.rows.append((what, layout, "same" if ok else "DIFFERS", apart))
        self.failed |= not ok
        print("  ".join(self.rows[-1]), flush=True)

    def table(self):
        print("\n| what was trained | layout | | apart |\n|---|---|---|---|")
        for row in self.rows:
            print("| " + " | ".join(row) + " |")


if __name__ == "__main__":
    check, wanted = Check(sys.argv[1], sys.argv[2]), sys.argv[3:]
    with tempfile.TemporaryDirectory() as at:
        os.chdir(at)
        if not wanted or "answers" in wanted:
            answers.check(check)
        if not wanted or "asks" in wanted:
            asks.check(check)
        if not wanted or clips.FOLDER in wanted:
            clips.check(check)
        for family in pictures.FAMILIES:
            if not wanted or family in wanted:
                pictures.check(check, family)
    check.table()
    sys.exit(1 if check.failed else 0)
