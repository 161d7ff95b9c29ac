package main

// Abilities of sluice that cases need, beyond chat completions, completions,
// embeddings and models in OpenAI's protocol.
const (
	messagesNative  = "/v1/messages"
	responsesNative = "/v1/responses"
	messagesToChat  = "/v1/messages by an OpenAI deployment"
	chatToMessages  = "/v1/chat/completions by an Anthropic deployment"
	ownRetries      = "retries before the first byte"
)

// abilities is what sluice is held to: a case that needs something else is
// played straight only, and said to be. -able lifts that for one run.
var abilities = map[string]bool{
	messagesNative:  true,
	responsesNative: true,
	messagesToChat:  true,
	chatToMessages:  true,
	ownRetries:      true,
}
