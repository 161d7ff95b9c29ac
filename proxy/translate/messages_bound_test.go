package translate

import (
	"fmt"
	"strings"
	"testing"
)

// TestWhatAStreamOfCallsKeepsIsBounded: however many calls an upstream names,
// and however long it names them, what is remembered of them has an end.
func TestWhatAStreamOfCallsKeepsIsBounded(t *testing.T) {
	for _, c := range []struct {
		name   string
		length int // of each id
		calls  int // that are well within the bound
	}{{"many calls", 8, 50_000}, {"long names", 1 << 20, 10}} {
		t.Run(c.name, func(t *testing.T) {
			s := NewMessagesStream("m", "msg_1")
			id := strings.Repeat("i", c.length)
			var err error
			n := 0
			for ; err == nil && n < 20*c.calls; n++ {
				_, err = s.Event(nil, fmt.Appendf(nil, `{"choices":[{"index":0,"delta":{"tool_calls":[{"index":%d,"id":"%s","function":{"name":"f","arguments":"{}"}}]}}]}`, n, id))
			}
			if err == nil || n <= c.calls {
				t.Errorf("%d calls, %v", n, err)
			}
			if _, ok := s.End(nil); ok {
				t.Error("the stream ended as if it were whole")
			}
		})
	}
}

// TestWhatOpenBlocksKeepIsBounded: the inputs that calls begin with wait for
// their end.
func TestWhatOpenBlocksKeepIsBounded(t *testing.T) {
	s := NewChatStream("m", 1, false)
	input := strings.Repeat("x", 4<<20)
	var err error
	n := 0
	for ; err == nil && n < maxBlocks; n++ {
		_, err = s.Event(nil, "", fmt.Appendf(nil, `{"type":"content_block_start","index":%d,"content_block":{"type":"tool_use","id":"t","name":"f","input":{"a":"%s"}}}`, n, input))
	}
	if err == nil || n < 2 || n > 32 {
		t.Errorf("%d blocks, %v", n, err)
	}
	// Blocks that end give back what they kept.
	s = NewChatStream("m", 1, false)
	for range 32 {
		for _, event := range []string{`{"type":"content_block_start","index":0,"content_block":{"type":"tool_use","id":"t","name":"f","input":{"a":"` + input + `"}}}`, `{"type":"content_block_stop","index":0}`} {
			if _, err := s.Event(nil, "", []byte(event)); err != nil {
				t.Fatal(err)
			}
		}
	}
}
