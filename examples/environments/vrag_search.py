#!/usr/bin/env python3
"""VRAG's search engine (Alibaba-NLP/VRAG, search_engine_api.py) as the tool that protocol vrag finds pages with.

    [episode]
    protocol = "vrag"

    [[episode.tool]]
    name = "search"
    command = ["python3", "examples/environments/vrag_search.py", "http://localhost:8002/search", "--pages", "corpus/img"]

The engine answers with the names of pages, the best first; the pages are read from the folder here, so that the engine
may run on another machine.
"""
import argparse
import base64
import json
import os
import urllib.parse
import urllib.request

from lines import serve

MOST = 8  # pictures of one answer


def main():
    p = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    p.add_argument("url", help="of the engine's search")
    p.add_argument("--pages", required=True, help="folder of the corpus's pictures")
    o = p.parse_args()

    def answer(request):
        query = urllib.parse.urlencode({"queries": request["arguments"]["query"]})
        with urllib.request.urlopen(f"{o.url}?{query}") as found:
            pages = json.load(found)[0]
        images = []
        for page in pages[:MOST]:
            with open(os.path.join(o.pages, os.path.basename(page["image_file"])), "rb") as f:
                images.append(base64.b64encode(f.read()).decode())
        return {"images": images} if images else {"error": "nothing was found"}

    serve(answer)


if __name__ == "__main__":
    main()
