package translate

import "strconv"

// msgStop is what is known of an answer's end.
type msgStop struct {
	reason   string // finish_reason, "" as long as there is none
	sequence []byte // the stop sequence as a JSON string, nil if not known
	refused  bool
	tools    int // calls in the answer
}

// note takes in one choice. vLLM and SGLang say which sequence they met, each
// in a field of its own; OpenAI does not.
func (s *msgStop) note(choice []byte) {
	var reason, stop, matched []byte
	msgPick(choice, msgTake("finish_reason", &reason), msgTake("stop_reason", &stop), msgTake("matched_stop", &matched))
	if msgFilled(reason) {
		s.reason = string(msgText(reason))
	}
	for _, sequence := range [][]byte{stop, matched} {
		if msgFilled(sequence) {
			s.sequence = append([]byte(nil), sequence...)
		}
	}
}

// stopReason returns Anthropic's word for it. Whether tools are to be called
// is decided by the calls, as OpenAI ends a forced call with "stop", and a
// client told to run tools must find one.
func (s *msgStop) stopReason() string {
	switch {
	case s.refused || s.reason == "content_filter":
		return "refusal"
	case s.reason == "length":
		return "max_tokens"
	case s.tools > 0:
		return "tool_use"
	case s.sequence != nil && s.reason == "stop":
		return "stop_sequence"
	}
	return "end_turn"
}

// appendTo appends the members stop_reason and stop_sequence.
func (s *msgStop) appendTo(dst []byte) []byte {
	reason := s.stopReason()
	dst = append(append(append(dst, `"stop_reason":"`...), reason...), `","stop_sequence":`...)
	if reason != "stop_sequence" {
		return append(dst, `null`...)
	}
	return append(dst, s.sequence...)
}

// msgUsage is what an answer cost, as OpenAI counts it: prompt holds cached.
type msgUsage struct {
	prompt, cached, completion int64
	known                      bool
}

// note takes in one usage value. Later figures are running totals of the same
// thing, so the last one of each holds; null changes nothing.
func (u *msgUsage) note(raw []byte) {
	for name, value := range msgMembers(raw) {
		if value = msgNotNull(value); value == nil {
			continue
		}
		switch string(name) {
		case "prompt_tokens":
			u.prompt, u.known = msgCount(value), true
		case "completion_tokens":
			u.completion, u.known = msgCount(value), true
		case "prompt_tokens_details":
			if cached := msgMember(value, "cached_tokens"); cached != nil {
				u.cached = msgCount(cached)
			}
		}
	}
}

// appendTo appends the usage as Anthropic counts it: input without cached.
func (u *msgUsage) appendTo(dst []byte) []byte {
	cached := min(u.cached, u.prompt)
	dst = strconv.AppendInt(append(dst, `{"input_tokens":`...), u.prompt-cached, 10)
	dst = strconv.AppendInt(append(dst, `,"cache_creation_input_tokens":0,"cache_read_input_tokens":`...), cached, 10)
	return append(strconv.AppendInt(append(dst, `,"output_tokens":`...), u.completion, 10), '}')
}
