"""What both libraries' halves of the driver share."""

CITY = {
    "type": "object",
    "properties": {"city": {"type": "string"}},
    "required": ["city"],
    "additionalProperties": False,
}


def prompt(call):
    return "x" * call["bytes"] if call.get("bytes") else "Hello world!"


def options(call):
    """The arguments of a client that the call asks for."""
    given = {"api_key": call["key"], "default_headers": call.get("headers")}
    if not call.get("default_retries"):
        given["max_retries"] = 0
    if call.get("timeout_ms"):
        given["timeout"] = call["timeout_ms"] / 1000
    return given


def failure(library, problem):
    """An exception of either library, in the words of a result."""
    message = str(problem)
    if isinstance(problem, library.APITimeoutError):
        return {"kind": "timeout", "message": message}
    if isinstance(problem, library.APIConnectionError):
        return {"kind": "connect", "message": message}
    if isinstance(problem, library.APIStatusError) and problem.response.status_code != 200:
        return status(library, problem)
    if isinstance(problem, library.APIError):  # an error event in a stream
        inner = error_of(problem.body)
        return {"kind": "stream", "type": inner.get("type") or "", "message": inner.get("message") or message}
    return {"kind": "other", "message": f"{type(problem).__name__}: {message}"}


def status(library, problem):
    response, inner = problem.response, error_of(problem.body)
    found = {
        "kind": "status",
        "status": response.status_code,
        "type": inner.get("type") or "",
        "message": inner.get("message") or "",
        "retry_after": response.headers.get("retry-after", ""),
        "limited_by": response.headers.get("x-sluice-limited-by", ""),
        "request_id": problem.request_id or "",
    }
    wanted = class_of(library, response.status_code)
    if not isinstance(problem, wanted):
        return {"kind": "other", "message": f"{response.status_code} raised {type(problem).__name__}, not {wanted.__name__}"}
    return found


def class_of(library, code):
    """The class that an application catches for a status."""
    return {
        400: library.BadRequestError,
        401: library.AuthenticationError,
        403: library.PermissionDeniedError,
        404: library.NotFoundError,
        429: library.RateLimitError,
    }.get(code, library.InternalServerError if code >= 500 else library.APIStatusError)


def error_of(body):
    """The error object: OpenAI's library hands out its inside, Anthropic's all of it."""
    if not isinstance(body, dict):
        return {}
    inner = body.get("error")
    return inner if isinstance(inner, dict) else body

