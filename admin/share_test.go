package admin

import (
	"encoding/json"
	"math"
	"testing"

	"sluice/limiter"
)

func TestSharesAsPeopleWriteThem(t *testing.T) {
	for _, tt := range []struct {
		in   string
		want limiter.Share
	}{
		{"0.9", limiter.Share{Kind: limiter.SharePercent, Value: 0.9}},
		{".5", limiter.Share{Kind: limiter.SharePercent, Value: 0.5}},
		{"90%", limiter.Share{Kind: limiter.SharePercent, Value: 0.9}},
		{"12.5%", limiter.Share{Kind: limiter.SharePercent, Value: 0.125}},
		{"0", limiter.Share{Kind: limiter.SharePercent}},
		{"1", limiter.Share{Kind: limiter.SharePercent, Value: 1}},
		{"100%", limiter.Share{Kind: limiter.SharePercent, Value: 1}},
		{"9rpm", limiter.Share{Kind: limiter.ShareRPM, Value: 9}},
		{"100tpm", limiter.Share{Kind: limiter.ShareTPM, Value: 100}},
	} {
		got, err := ParseShare(tt.in)
		if err != nil || got != tt.want {
			t.Errorf("%q = %+v, %v; want %+v", tt.in, got, err, tt.want)
		}
	}
}

func TestOtherSharesAreRefused(t *testing.T) {
	for _, s := range []string{"", "%", "rpm", ".", "..", "1.1", "101%", "-1", "-5%", "NaN", "Inf", "1e-1", "0x1p-2", "1_0rpm", "9 rpm", "9RPM", "nan%", "1.2.3", "٣%"} {
		if got, err := ParseShare(s); err == nil {
			t.Errorf("%q was read as %+v", s, got)
		}
	}
}

func TestShareInBodies(t *testing.T) {
	for _, tt := range []struct {
		in   string
		want limiter.Share
		ok   bool
	}{
		{`0.9`, limiter.Share{Kind: limiter.SharePercent, Value: 0.9}, true},
		{`9e-1`, limiter.Share{Kind: limiter.SharePercent, Value: 0.9}, true},
		{`"90%"`, limiter.Share{Kind: limiter.SharePercent, Value: 0.9}, true},
		{`{"type":"rpm","value":9}`, limiter.Share{Kind: limiter.ShareRPM, Value: 9}, true},
		{`null`, limiter.Share{}, false},
		{``, limiter.Share{}, false},
		{`-0.1`, limiter.Share{}, false},
		{`true`, limiter.Share{}, false},
		{`[1]`, limiter.Share{}, false},
		{`{"type":"rps","value":9}`, limiter.Share{}, false},
		{`{"type":"percent","value":90}`, limiter.Share{}, false},
		{`{"type":"rpm","value":"x"}`, limiter.Share{}, false},
	} {
		got, err := shareFromJSON(json.RawMessage(tt.in))
		if (err == nil) != tt.ok || got != tt.want {
			t.Errorf("%s = %+v, %v", tt.in, got, err)
		}
	}
}

func FuzzParseShare(f *testing.F) {
	for _, s := range []string{"0.9", "90%", "9rpm", "100tpm", "1e9", "NaN", "0x1", ".", "100.000000001%"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		got, err := ParseShare(s)
		if err != nil {
			return
		}
		if math.IsNaN(got.Value) || math.IsInf(got.Value, 0) || got.Value < 0 || got.Kind == limiter.SharePercent && got.Value > 1 {
			t.Fatalf("%q = %+v", s, got)
		}
		if len(FormatShare(got)) > 20 {
			return // more digits than ParseShare takes from people
		}
		if again, err := ParseShare(FormatShare(got)); err != nil || again != got {
			t.Errorf("%q is written as %q, which is %+v, %v", s, FormatShare(got), again, err)
		}
	})
}
