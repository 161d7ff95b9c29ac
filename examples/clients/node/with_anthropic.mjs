// Calls that Anthropic's library carries out.

import Anthropic from '@anthropic-ai/sdk';
import { zodOutputFormat } from '@anthropic-ai/sdk/helpers/zod';
import { Weather, city, failure, options, prompt } from './common.mjs';

// guarded turns what the library throws into a result.
const guarded = (action) => async (call) => {
  const client = new Anthropic({ baseURL: call.base_url, authToken: null, ...options(call) });
  try {
    return await action(client, call);
  } catch (problem) {
    return { failure: failure(Anthropic, problem) };
  }
};

async function messages(client, call) {
  const asked = { model: call.model, max_tokens: 1024, messages: [{ role: 'user', content: prompt(call) }] };
  if (call.tools) asked.tools = [{ name: 'weather', input_schema: city }];
  if (call.stream) return stream(client, call, asked);
  if (call.structured) {
    const answer = await client.messages.parse({ ...asked, output_config: { format: zodOutputFormat(Weather) } });
    return { ...message(answer), parsed: answer.parsed_output };
  }
  return message(await client.messages.create(asked));
}

// stream uses the library's helper, whose snapshot is what applications see.
async function stream(client, call, asked) {
  let result = {};
  let snapshot;
  let texts = 0;
  let stopped = false;
  const events = client.messages.stream(asked);
  try {
    for await (const event of events) {
      stopped ||= event.type === 'message_stop';
      if (event.type === 'content_block_delta' && event.delta.type === 'text_delta') texts++;
      snapshot = events.currentMessage ?? snapshot;
      if (call.leave_after && texts >= call.leave_after) {
        events.abort();
        return { text: message(snapshot).text, left: true };
      }
    }
    snapshot = await events.finalMessage();
  } catch (problem) {
    result.failure = failure(Anthropic, problem);
  }
  if (snapshot) result = { ...message(snapshot), ...result };
  if (!stopped && !result.failure) result.finish = '(no message_stop)';
  return result;
}

function message(answer) {
  const u = answer.usage;
  const cached = u.cache_read_input_tokens ?? 0;
  const result = {
    text: '',
    thinking: '',
    signature: '',
    finish: answer.stop_reason ?? '',
    tools: [],
    usage: { input: u.input_tokens + cached + (u.cache_creation_input_tokens ?? 0), output: u.output_tokens, cached },
  };
  for (const block of answer.content) {
    result.text += block.text ?? '';
    result.thinking += block.thinking ?? '';
    result.signature += block.signature ?? '';
    if (block.type === 'tool_use') result.tools.push({ id: block.id, name: block.name, arguments: JSON.stringify(block.input) });
  }
  return result;
}

async function countTokens(client, call) {
  const count = await client.messages.countTokens({ model: call.model, messages: [{ role: 'user', content: prompt(call) }] });
  return { tokens: count.input_tokens };
}

async function models(client) {
  const names = [];
  for await (const m of client.models.list()) if (m.type === 'model' && m.display_name) names.push(m.id);
  return { models: names.sort() };
}

export const actions = {
  messages: guarded(messages),
  count_tokens: guarded(countTokens),
  claude_models: guarded(models),
};
