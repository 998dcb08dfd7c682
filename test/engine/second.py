# SPDX-License-Identifier: Apache-2.0
"""A second process with vLLM: what an engine that starts later finds. Writes JSON into a file.

usage: second.py MODEL OTHER_MODEL URI FOLDER OUT
"""

import json
import signal
import sys

import pealkv
import rig
from rig import prompt

WANTED = [(1, 1100), (1, 2600), (4, 1100)]


def tell(engine):
    said = []
    for seed, tokens in WANTED:
        (answer, cached), = engine.run(prompt(seed, tokens))
        said.append({'answer': answer, 'cached': cached})
        engine.forget()
    return said


def small(model, folder):
    """More values than the store has room for, again and again."""
    daemon = rig.Daemon(folder, 'dram 12M').start()
    engine = rig.Engine(model, daemon.uri)
    prompts = [prompt(60 + i, 1100) for i in range(6)]
    answers = []
    for _ in range(2):
        for p in prompts:
            answers.append(engine.run(p)[0][0])
            engine.forget()
    with pealkv.open(daemon.uri) as client:
        kept = len(list(client.list()))
    engine.close()
    daemon.end(signal.SIGKILL)
    return {'answers': answers[6:], 'without': answers[:6], 'evicted': 6 * 4 - kept}


def main():
    model, other, uri, folder, out = sys.argv[1:]
    said = {}
    engine = rig.Engine(model, uri)
    said['same'] = tell(engine)
    engine.close()
    engine = rig.Engine(other, uri)
    said['other'] = tell(engine)
    engine.close()
    said['small'] = small(model, folder)
    with open(out, 'w', encoding='ascii') as f:
        json.dump(said, f)


if __name__ == '__main__':
    main()
