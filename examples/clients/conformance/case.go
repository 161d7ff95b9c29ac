package main

import (
	"time"

	"sluice/examples/upstream"
)

// Way is how a case reaches the provider.
type Way string

// The ways.
const (
	Straight   Way = "straight"   // the provider itself
	Through    Way = "through"    // sluice, whose deployment speaks the client's protocol
	Translated Way = "translated" // sluice, whose deployment speaks the other one
)

// Case is one row of the table.
type Case struct {
	Name  string
	Field string // the field case that it replays, if one
	Steps []upstream.Step
	Call  Call
	Want  Result // Failure.Message is looked for in the message
	// Differs changes what is wanted for a way, where that is right.
	Differs map[Way]Result

	Executed int           // requests that the provider must have executed; -1 as many as steps
	Spent    *Usage        // what sluice must have counted; nil: nothing
	Guessed  bool          // sluice counts an estimate: anything but nothing
	Within   time.Duration // the longest that the call may take; 0 means 10 s
	AtLeast  time.Duration // the shortest

	GatewayOnly  bool   // the provider alone cannot give what is wanted
	Translatable bool   // the steps are words that both protocols have
	Needs        string // an ability of sluice, see through.go; "" is what it always had
	Key          string // "": a good one; "unknown", "limited": one request a minute, used up
	// Sent checks the body of the last request that the provider executed.
	Sent func(upstream.Request) string
}

// wants returns what the case wants on a way.
func (c *Case) wants(w Way) Result {
	if r, ok := c.Differs[w]; ok {
		return r
	}
	return c.Want
}

// ways returns the ways that a case can go in a sluice with these abilities,
// and why it goes no others.
func (c *Case) ways(able map[string]bool) (ways []Way, missing []string) {
	if !c.GatewayOnly {
		ways = append(ways, Straight)
	}
	need := func(w Way, abilities ...string) {
		for _, a := range abilities {
			if a != "" && !able[a] {
				missing = append(missing, string(w)+" sluice: needs "+a)
				return
			}
		}
		ways = append(ways, w)
	}
	native := ""
	switch c.Call.Do {
	case doMessages, doCountTokens, doListClaude:
		native = messagesNative
	case doResponses, doStored:
		native = responsesNative
	}
	need(Through, native, c.Needs)
	if c.Translatable {
		translation := chatToMessages
		if native == messagesNative {
			translation = messagesToChat
		}
		need(Translated, translation, c.Needs)
	}
	return ways, missing
}

// anthropic reports whether the client speaks Anthropic's protocol.
func (c *Case) anthropic() bool {
	return c.Call.Do == doMessages || c.Call.Do == doCountTokens || c.Call.Do == doListClaude
}

// model returns the name of the model that takes a case its way.
func (c *Case) model(w Way) string {
	if c.anthropic() != (w == Translated) {
		return claudeModel
	}
	return gptModel
}

// all is the table.
func all() []Case {
	var list []Case
	for _, part := range [][]Case{
		plainCases(), streamCases(), toolCases(), errorCases(), retryCases(), lifeCases(), cutCases(), usageCases(), sizeCases(),
	} {
		list = append(list, part...)
	}
	return list
}
