"""Calls that Anthropic's library carries out."""

import json

import anthropic
from pydantic import BaseModel

from common import CITY, failure, options, prompt


class Weather(BaseModel):
    city: str
    degrees: int


def guarded(action):
    """Turns what the library raises into a result."""

    def play(call):
        with anthropic.Anthropic(base_url=call["base_url"], **options(call)) as client:
            try:
                return action(client, call)
            except anthropic.AnthropicError as problem:
                return {"failure": failure(anthropic, problem)}

    return play


def messages(client, call):
    asked = {"model": call["model"], "max_tokens": 1024, "messages": [{"role": "user", "content": prompt(call)}]}
    if call.get("tools"):
        asked["tools"] = [{"name": "weather", "input_schema": CITY}]
    if call.get("stream"):
        return stream(client, call, asked)
    if call.get("structured"):
        answer = client.messages.parse(output_format=Weather, **asked)
        return {**message(answer), "parsed": answer.parsed_output.model_dump()}
    return message(client.messages.create(**asked))


def stream(client, call, asked):
    """Uses the library's helper, whose snapshot is what applications see."""
    texts, stopped, snapshot, result = 0, False, None, {}
    try:
        with client.messages.stream(**asked) as events:
            for event in events:
                stopped = stopped or event.type == "message_stop"
                texts += event.type == "text"
                snapshot = events.current_message_snapshot
                if call.get("leave_after") and texts >= call["leave_after"]:
                    return {"text": message(snapshot)["text"], "left": True}
    except anthropic.AnthropicError as problem:
        result["failure"] = failure(anthropic, problem)
    if snapshot is not None:
        result = {**message(snapshot), **result}
    if not stopped and "failure" not in result:
        result["finish"] = "(no message_stop)"
    return result


def message(answer):
    u = answer.usage
    cached, created = u.cache_read_input_tokens or 0, u.cache_creation_input_tokens or 0
    result = {
        "text": "",
        "thinking": "",
        "signature": "",
        "finish": answer.stop_reason or "",
        "tools": [],
        "usage": {"input": u.input_tokens + cached + created, "output": u.output_tokens, "cached": cached},
    }
    for block in answer.content:
        if block.type == "text":
            result["text"] += block.text
        elif block.type == "thinking":
            result["thinking"] += block.thinking
            result["signature"] += block.signature
        elif block.type == "tool_use":
            result["tools"].append({"id": block.id, "name": block.name, "arguments": json.dumps(block.input)})
    return result


def count_tokens(client, call):
    count = client.messages.count_tokens(model=call["model"], messages=[{"role": "user", "content": prompt(call)}])
    return {"tokens": count.input_tokens}


def models(client, call):
    return {"models": sorted(m.id for m in client.models.list() if m.type == "model" and m.display_name)}


ACTIONS = {
    "messages": guarded(messages),
    "count_tokens": guarded(count_tokens),
    "claude_models": guarded(models),
}
