"""A search engine of one file: catalogue.json has texts by their names. A call is a line {"n", "tool", "arguments"}, and
its answer a line with the same n; what is not there is an error, which the model reads."""
import json
import sys

with open("catalogue.json") as f:
    catalogue = json.load(f)
for line in sys.stdin:
    asked = json.loads(line)
    query = " ".join(str(asked["arguments"].get("query", "")).lower().split())
    reply = {"text": catalogue[query]} if query in catalogue else {"error": "nothing was found"}
    print(json.dumps({"n": asked["n"], **reply}), flush=True)
