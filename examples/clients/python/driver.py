"""Plays calls with the Python libraries of OpenAI and Anthropic.

Reads a call as a line of JSON, carries it out, and writes what the library
returned as a line of JSON, until its input ends. The words of both lines are
those of conformance/protocol.go. It decides nothing about right and wrong, but
for the class of an exception, which only this language knows.
"""

import json
import sys
import traceback

import with_anthropic
import with_openai

ACTIONS = {**with_openai.ACTIONS, **with_anthropic.ACTIONS}


def play(call):
    action = ACTIONS.get(call["do"])
    if action is None:
        return {"skip": "cannot do " + call["do"]}
    try:
        return action(call)
    except Exception as problem:  # whatever a library raises is a result
        traceback.print_exc()
        return {"failure": {"kind": "other", "message": f"{type(problem).__name__}: {problem}"}}


def main():
    print(flush=True)  # everything is loaded
    for line in sys.stdin:
        print(json.dumps(play(json.loads(line))), flush=True)


main()
