package admincli

import (
	"strings"
	"testing"
	"time"

	"sluice/admin"
)

func TestColumnsAreAsWideAsATerminalShowsThem(t *testing.T) {
	var out strings.Builder
	p := &printer{w: &out}
	p.row("ALIAS", "STATE")
	p.row("日本語", "a")
	p.row("e\u0301", "b")
	p.row("", "c")
	p.row("\u202eabc\x1b[2J\u200b\u009b", "d")
	p.blank()
	p.row("alone")
	p.flush()
	want := "ALIAS       STATE\n日本語      a\ne\u0301           b\n-           c\n?abc?[2J??  d\n\nalone\n"
	if out.String() != want {
		t.Errorf("got\n%swant\n%s", out.String(), want)
	}
}

func TestAnExpiredKeyIsNotActive(t *testing.T) {
	r := newRig(t)
	hash := value(t, r.ok("key", "generate", "--duration", "1h"), "hash")
	for after, want := range map[time.Duration]string{time.Hour - time.Microsecond: "active", time.Hour: "expired"} {
		r.now = start.Add(after)
		if got := value(t, r.ok("key", "info", hash), "state"); got != want {
			t.Errorf("after %v: %s, want %s", after, got, want)
		}
	}
}

func TestAnUpdateKeepsAllDigitsOfMetadata(t *testing.T) {
	r := newRig(t)
	c, err := admin.NewClient(admin.ClientOptions{Server: r.url, MasterKey: masterKey})
	if err != nil {
		t.Fatal(err)
	}
	k, err := c.GenerateKey(t.Context(), admin.Fields{"metadata": map[string]any{"account": uint64(12345678901234567890)}})
	if err != nil {
		t.Fatal(err)
	}
	out := r.ok("key", "update", k.Token, "--priority", "prod", "-o", "json")
	if !strings.Contains(out, `"account": 12345678901234567890`) || !strings.Contains(out, `"priority": "prod"`) {
		t.Error(out)
	}
}
