// Plays calls with the Node libraries of OpenAI and Anthropic.
//
// Reads a call as a line of JSON, carries it out, and writes what the library
// returned as a line of JSON, until its input ends. The words of both lines are
// those of conformance/protocol.go. It decides nothing about right and wrong,
// but for the class of an error, which only this language knows.

import { createInterface } from 'node:readline';
import { actions as ofAnthropic } from './with_anthropic.mjs';
import { actions as ofOpenAI } from './with_openai.mjs';

const actions = { ...ofOpenAI, ...ofAnthropic };

async function play(call) {
  const action = actions[call.do];
  if (!action) return { skip: `cannot do ${call.do}` };
  try {
    return await action(call);
  } catch (problem) {
    console.error(problem);
    return { failure: { kind: 'other', message: String(problem) } };
  }
}

console.log(); // everything is loaded
for await (const line of createInterface({ input: process.stdin })) {
  console.log(JSON.stringify(await play(JSON.parse(line))));
}
