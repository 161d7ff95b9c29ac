package fsm

import (
	"strings"
	"testing"
	"time"
)

func TestSameIdempotencyKeyReturnsTheFirstAnswer(t *testing.T) {
	r := newRig(t)
	once := WriteOptions{IdempotencyKey: "k1"}
	a, b := testKey("a"), testKey("b")
	a.Alias, b.Alias = "x", "x"
	first, err := r.CreateKey(t.Context(), a, once)
	if err != nil {
		t.Fatal(err)
	}
	again, err := r.CreateKey(t.Context(), b, once)
	if err != nil || again.ID != first.ID || !again.CreatedAt.Equal(first.CreatedAt) {
		t.Fatalf("second answer is %+v, %v", again, err)
	}
	if n := r.s.View().KeyCount(); n != 1 {
		t.Errorf("there are %d keys", n)
	}
	_, err = r.DeleteKeys(t.Context(), []string{a.ID}, once)
	wantInvalid(t, err, "Idempotency-Key")

	refused := WriteOptions{IdempotencyKey: "k2"}
	_, err = r.CreateKey(t.Context(), b, refused)
	wantErr(t, err, ErrAliasTaken)
	if _, err := r.DeleteKeys(t.Context(), []string{a.ID}, WriteOptions{IdempotencyKey: "k3"}); err != nil {
		t.Fatal(err)
	}
	_, err = r.CreateKey(t.Context(), b, refused)
	wantErr(t, err, ErrAliasTaken)
}

func TestIdempotencyKeyIsForgottenAfterAnHour(t *testing.T) {
	r := newRig(t)
	once := WriteOptions{IdempotencyKey: "k"}
	mustOnce := func(k Key) *Key {
		out, err := r.CreateKey(t.Context(), k, once)
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
	mustOnce(testKey("a"))
	r.time.pass(time.Hour - time.Second)
	if got := mustOnce(testKey("b")); got.ID != id("a") {
		t.Fatal("forgotten before the hour was over")
	}
	r.time.pass(time.Second)
	if got := mustOnce(testKey("b")); got.ID != id("b") {
		t.Fatal("remembered for more than an hour")
	}
}

func TestIdempotencyTableIsBounded(t *testing.T) {
	table := newAnswerTable(nil)
	for i := range maxAnswers + 500 {
		table.put(&savedAnswer{Key: nth(i), Answer: []byte("1")})
		table.prune(0)
	}
	if len(table.order) > maxAnswers || len(table.byKey) != len(table.order) {
		t.Errorf("%d answers are kept", len(table.order))
	}
	table = newAnswerTable(nil)
	for i := range 100 {
		table.put(&savedAnswer{Key: nth(i), Answer: []byte(strings.Repeat(" ", 1<<20))})
		table.prune(0)
	}
	if table.bytes > maxAnswerBytes || len(table.order) == 0 {
		t.Errorf("%d answers of %d bytes are kept", len(table.order), table.bytes)
	}
}

func TestTooLongIdempotencyKeyIsRefusedBeforeTheLog(t *testing.T) {
	r := newRig(t)
	_, err := r.CreateKey(t.Context(), testKey("a"), WriteOptions{IdempotencyKey: strings.Repeat("x", 256)})
	wantInvalid(t, err, "Idempotency-Key")
	if len(r.log.entries) != 0 {
		t.Error("it was written to the log")
	}
}
