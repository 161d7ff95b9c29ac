// Calls that OpenAI's library carries out.

import OpenAI from 'openai';
import { zodResponseFormat, zodTextFormat } from 'openai/helpers/zod';
import { Weather, city, failure, options, prompt } from './common.mjs';

// guarded turns what the library throws into a result.
const guarded = (action) => async (call) => {
  const client = new OpenAI({ baseURL: `${call.base_url}/v1`, ...options(call) });
  try {
    return await action(client, call);
  } catch (problem) {
    return { failure: failure(OpenAI, problem) };
  }
};

const chatUsage = (u) =>
  u ? { input: u.prompt_tokens, output: u.completion_tokens, cached: u.prompt_tokens_details?.cached_tokens ?? 0 } : undefined;

async function chat(client, call) {
  const asked = { model: call.model, messages: [{ role: 'user', content: prompt(call) }] };
  if (call.tools) asked.tools = [{ type: 'function', function: { name: 'weather', parameters: city } }];
  if (call.stream) return chatStream(client, call, asked);
  let answer;
  if (call.structured) {
    answer = await client.chat.completions.parse({ ...asked, response_format: zodResponseFormat(Weather, 'weather') });
  } else {
    answer = await client.chat.completions.create(asked);
  }
  const { message, finish_reason: finish } = answer.choices[0];
  return {
    text: message.content ?? '',
    finish,
    tools: (message.tool_calls ?? []).map((t) => ({ id: t.id, name: t.function.name, arguments: t.function.arguments })),
    usage: chatUsage(answer.usage),
    parsed: call.structured ? message.parsed : undefined,
  };
}

async function chatStream(client, call, asked) {
  if (call.usage) asked.stream_options = { include_usage: true };
  const result = { text: '', finish: '', tools: [] };
  let texts = 0;
  try {
    for await (const chunk of await client.chat.completions.create({ ...asked, stream: true })) {
      if (chunk.usage) result.usage = chatUsage(chunk.usage);
      for (const choice of chunk.choices) {
        result.finish = choice.finish_reason ?? result.finish;
        result.text += choice.delta.content ?? '';
        if (choice.delta.content) texts++;
        for (const t of choice.delta.tool_calls ?? []) addCall(result.tools, t);
      }
      if (call.leave_after && texts >= call.leave_after) return { text: result.text, left: true }; // leaving the loop aborts
    }
  } catch (problem) {
    result.failure = failure(OpenAI, problem);
  }
  return result;
}

function addCall(tools, t) {
  tools[t.index] ??= { id: '', name: '', arguments: '' };
  const tool = tools[t.index];
  tool.id += t.id ?? '';
  tool.name += t.function?.name ?? '';
  tool.arguments += t.function?.arguments ?? '';
}

async function completions(client, call) {
  const asked = { model: call.model, prompt: prompt(call) };
  if (!call.stream) {
    const answer = await client.completions.create(asked);
    return { text: answer.choices[0].text, finish: answer.choices[0].finish_reason, usage: chatUsage(answer.usage) };
  }
  const result = { text: '', finish: '' };
  for await (const chunk of await client.completions.create({ ...asked, stream: true })) {
    for (const choice of chunk.choices) {
      result.text += choice.text;
      result.finish = choice.finish_reason ?? '';
    }
  }
  return result;
}

async function embeddings(client, call) {
  const answer = await client.embeddings.create({ model: call.model, input: ['one', 'two'] });
  return { vectors: answer.data.map((e) => e.embedding), usage: { input: answer.usage.prompt_tokens, output: 0, cached: 0 } };
}

async function models(client) {
  const names = [];
  for await (const m of client.models.list()) names.push(m.id);
  return { models: names.sort() };
}

async function responses(client, call) {
  const asked = { model: call.model, input: prompt(call) };
  if (call.tools) asked.tools = [{ type: 'function', name: 'weather', parameters: city, strict: true }];
  if (call.structured) {
    const answer = await client.responses.parse({ ...asked, text: { format: zodTextFormat(Weather, 'weather') } });
    return { ...response(answer), parsed: answer.output_parsed };
  }
  if (!call.stream) return response(await client.responses.create(asked));
  return responsesStream(client, call, asked);
}

async function responsesStream(client, call, asked) {
  let said = '';
  let texts = 0;
  let result;
  try {
    for await (const event of await client.responses.create({ ...asked, stream: true })) {
      if (event.type === 'response.completed') result = response(event.response);
      if (event.type !== 'response.output_text.delta') continue;
      said += event.delta;
      texts++;
      if (texts === call.leave_after) return { text: said, left: true }; // leaving the loop aborts
    }
  } catch (problem) {
    return { text: said, failure: failure(OpenAI, problem) };
  }
  if (!result) return { text: said, finish: '(not completed)' };
  if (result.text !== said) result.text = `deltas ${said} but completed ${result.text}`;
  return result;
}

function response(answer) {
  const text = answer.output.flatMap((item) => item.content ?? []).map((part) => part.text).join('');
  const u = answer.usage;
  return {
    text,
    finish: answer.status,
    tools: answer.output
      .filter((item) => item.type === 'function_call')
      .map((item) => ({ id: item.call_id, name: item.name, arguments: item.arguments })),
    usage: u ? { input: u.input_tokens, output: u.output_tokens, cached: u.input_tokens_details.cached_tokens } : undefined,
  };
}

async function stored(client, call) {
  const made = await client.responses.create({ model: call.model, input: prompt(call) });
  const read = await client.responses.retrieve(made.id);
  await client.responses.delete(made.id);
  let deleted = false;
  try {
    await client.responses.retrieve(made.id);
  } catch (problem) {
    deleted = problem instanceof OpenAI.NotFoundError;
  }
  return { text: made.output_text, stored: response(read).text, deleted };
}

export const actions = {
  chat: guarded(chat),
  completions: guarded(completions),
  embeddings: guarded(embeddings),
  models: guarded(models),
  responses: guarded(responses),
  stored: guarded(stored),
};
