"""Calls that OpenAI's library carries out."""

import openai
from pydantic import BaseModel

from common import CITY, failure, options, prompt


class Weather(BaseModel):
    city: str
    degrees: int


def client_of(call):
    return openai.OpenAI(base_url=call["base_url"] + "/v1", **options(call))


def guarded(action):
    """Turns what the library raises into a result."""

    def play(call):
        with client_of(call) as client:
            try:
                return action(client, call)
            except openai.OpenAIError as problem:
                return {"failure": failure(openai, problem)}

    return play


def chat_usage(u):
    if u is None:
        return None
    details = u.prompt_tokens_details
    return {"input": u.prompt_tokens, "output": u.completion_tokens, "cached": (details and details.cached_tokens) or 0}


def chat(client, call):
    asked = {"model": call["model"], "messages": [{"role": "user", "content": prompt(call)}]}
    if call.get("tools"):
        asked["tools"] = [{"type": "function", "function": {"name": "weather", "parameters": CITY}}]
    if call.get("stream"):
        return chat_stream(client, call, asked)
    if call.get("structured"):
        answer = client.chat.completions.parse(response_format=Weather, **asked)
    else:
        answer = client.chat.completions.create(**asked)
    choice = answer.choices[0]
    result = {
        "text": choice.message.content or "",
        "finish": choice.finish_reason,
        "tools": [{"id": t.id, "name": t.function.name, "arguments": t.function.arguments} for t in choice.message.tool_calls or []],
        "usage": chat_usage(answer.usage),
    }
    if call.get("structured"):
        result["parsed"] = choice.message.parsed.model_dump()
    return result


def chat_stream(client, call, asked):
    if call.get("usage"):
        asked["stream_options"] = {"include_usage": True}
    result, tools, texts = {"text": ""}, {}, 0
    try:
        with client.chat.completions.create(stream=True, **asked) as stream:
            for chunk in stream:
                if chunk.usage is not None:
                    result["usage"] = chat_usage(chunk.usage)
                for choice in chunk.choices:
                    result["finish"] = choice.finish_reason or result.get("finish", "")
                    result["text"] += choice.delta.content or ""
                    texts += bool(choice.delta.content)
                    for t in choice.delta.tool_calls or []:
                        tool = tools.setdefault(t.index, {"id": "", "name": "", "arguments": ""})
                        tool["id"] += t.id or ""
                        tool["name"] += t.function.name or ""
                        tool["arguments"] += t.function.arguments or ""
                if call.get("leave_after") and texts >= call["leave_after"]:
                    return {"text": result["text"], "left": True}
    except openai.OpenAIError as problem:
        result["failure"] = failure(openai, problem)
    result["tools"] = [tools[i] for i in sorted(tools)]
    return result


def completions(client, call):
    asked = {"model": call["model"], "prompt": prompt(call)}
    if not call.get("stream"):
        answer = client.completions.create(**asked)
        choice = answer.choices[0]
        return {"text": choice.text, "finish": choice.finish_reason, "usage": chat_usage(answer.usage)}
    result = {"text": ""}
    with client.completions.create(stream=True, **asked) as stream:
        for chunk in stream:
            for choice in chunk.choices:
                result["text"] += choice.text
                result["finish"] = choice.finish_reason or ""
    return result


def embeddings(client, call):
    answer = client.embeddings.create(model=call["model"], input=["one", "two"])
    return {"vectors": [e.embedding for e in answer.data], "usage": {"input": answer.usage.prompt_tokens, "output": 0, "cached": 0}}


def models(client, call):
    return {"models": sorted(m.id for m in client.models.list())}


def responses(client, call):
    asked = {"model": call["model"], "input": prompt(call)}
    if call.get("tools"):
        asked["tools"] = [{"type": "function", "name": "weather", "parameters": CITY, "strict": True}]
    if call.get("structured"):
        answer = client.responses.parse(text_format=Weather, **asked)
        return {**response(answer), "parsed": answer.output_parsed.model_dump()}
    if not call.get("stream"):
        return response(client.responses.create(**asked))
    return responses_stream(client, call, asked)


def responses_stream(client, call, asked):
    said, texts, result = "", 0, {}
    try:
        with client.responses.create(stream=True, **asked) as stream:
            for event in stream:
                if event.type == "response.output_text.delta":
                    said += event.delta
                    texts += 1
                    if texts == call.get("leave_after"):
                        return {"text": said, "left": True}
                elif event.type == "response.completed":
                    result = response(event.response)
    except openai.OpenAIError as problem:
        return {"text": said, "failure": failure(openai, problem)}
    if not result:
        return {"text": said, "finish": "(not completed)"}
    if result["text"] != said:
        result["text"] = f"deltas {said} but completed {result['text']}"
    return result


def response(answer):
    u = answer.usage
    return {
        "text": answer.output_text,
        "finish": answer.status,
        "tools": [{"id": i.call_id, "name": i.name, "arguments": i.arguments} for i in answer.output if i.type == "function_call"],
        "usage": u and {"input": u.input_tokens, "output": u.output_tokens, "cached": u.input_tokens_details.cached_tokens},
    }


def stored(client, call):
    made = client.responses.create(model=call["model"], input=prompt(call))
    read = client.responses.retrieve(made.id)
    client.responses.delete(made.id)
    try:
        client.responses.retrieve(made.id)
        gone = False
    except openai.NotFoundError:
        gone = True
    return {"text": made.output_text, "stored": read.output_text, "deleted": gone}


ACTIONS = {
    "chat": guarded(chat),
    "completions": guarded(completions),
    "embeddings": guarded(embeddings),
    "models": guarded(models),
    "responses": guarded(responses),
    "stored": guarded(stored),
}
