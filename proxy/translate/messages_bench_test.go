package translate

import "testing"

// What one chunk of text costs on its way.
func BenchmarkMessagesStreamChunk(b *testing.B) {
	s := NewMessagesStream("claude-x", "msg_1")
	chunk := []byte(msgChunk(`{"content":"hello "}`, "null"))
	dst := make([]byte, 0, 4096)
	b.ReportAllocs()
	b.SetBytes(int64(len(chunk)))
	for b.Loop() {
		if _, err := s.Event(dst[:0], chunk); err != nil {
			b.Fatal(err)
		}
	}
}
