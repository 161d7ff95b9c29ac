// What both libraries' halves of the driver share.

import * as z from 'zod';

export const city = {
  type: 'object',
  properties: { city: { type: 'string' } },
  required: ['city'],
  additionalProperties: false,
};

export const Weather = z.object({ city: z.string(), degrees: z.int() });

export const prompt = (call) => (call.bytes ? 'x'.repeat(call.bytes) : 'Hello world!');

// options are the arguments of a client that the call asks for.
export function options(call) {
  const given = { apiKey: call.key, defaultHeaders: call.headers, logLevel: 'off' };
  if (!call.default_retries) given.maxRetries = 0;
  if (call.timeout_ms) given.timeout = call.timeout_ms;
  return given;
}

// failure is what either library threw, in the words of a result. errors holds
// its classes.
export function failure(errors, problem) {
  const message = String(problem?.message ?? problem);
  if (problem instanceof errors.APIConnectionTimeoutError) return { kind: 'timeout', message };
  if (problem instanceof errors.APIConnectionError) return { kind: 'connect', message };
  if (problem instanceof errors.APIError && problem.status) return status(errors, problem);
  if (problem instanceof errors.APIError) {
    const inner = inside(problem.error);
    return { kind: 'stream', type: inner.type ?? '', message: inner.message ?? message };
  }
  // Undici's own, which the libraries pass on when a body breaks off.
  if (problem instanceof TypeError && problem.message === 'terminated') return { kind: 'connect', message };
  return { kind: 'other', message: `${problem?.constructor?.name}: ${message}` };
}

function status(errors, problem) {
  const wanted = classOf(errors, problem.status);
  if (!(problem instanceof wanted)) {
    return { kind: 'other', message: `${problem.status} threw ${problem.constructor.name}, not ${wanted.name}` };
  }
  const inner = inside(problem.error);
  const header = (name) => problem.headers?.get(name) ?? '';
  return {
    kind: 'status',
    status: problem.status,
    type: inner.type ?? '',
    message: inner.message ?? '',
    retry_after: header('retry-after'),
    limited_by: header('x-sluice-limited-by'),
    request_id: problem.requestID ?? '',
  };
}

// classOf is the class that an application catches for a status.
function classOf(errors, code) {
  const known = {
    400: errors.BadRequestError,
    401: errors.AuthenticationError,
    403: errors.PermissionDeniedError,
    404: errors.NotFoundError,
    429: errors.RateLimitError,
  };
  return known[code] ?? (code >= 500 ? errors.InternalServerError : errors.APIError);
}

// inside is the error object: OpenAI's library hands out its inside, Anthropic's all of it.
function inside(body) {
  if (!body || typeof body !== 'object') return {};
  return body.error && typeof body.error === 'object' ? body.error : body;
}
