package admin

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"sluice/limiter"
)

// ParseShare reads a share as people write it: 0.9 or 90% of a model, 9rpm or
// 100tpm of its limit of that kind.
func ParseShare(s string) (limiter.Share, error) {
	kind, number := limiter.SharePercent, s
	per100 := false
	switch {
	case strings.HasSuffix(s, "%"):
		number, per100 = strings.TrimSuffix(s, "%"), true
	case strings.HasSuffix(s, "rpm"):
		kind, number = limiter.ShareRPM, strings.TrimSuffix(s, "rpm")
	case strings.HasSuffix(s, "tpm"):
		kind, number = limiter.ShareTPM, strings.TrimSuffix(s, "tpm")
	}
	// ParseFloat alone would also take NaN, Inf, exponents and hexadecimal.
	if number == "" || len(number) > 20 || strings.Trim(number, "0123456789.") != "" || strings.Trim(number, ".") == "" {
		return limiter.Share{}, badShare(s)
	}
	v, err := strconv.ParseFloat(number, 64)
	if err != nil {
		return limiter.Share{}, badShare(s)
	}
	if per100 {
		v /= 100
	}
	if kind == limiter.SharePercent && v > 1 {
		return limiter.Share{}, fmt.Errorf("share %q is more than the whole model; use a number from 0 to 1, up to 100%%, or %srpm for requests", clip(s), strings.TrimSuffix(clip(s), "%"))
	}
	return limiter.Share{Kind: kind, Value: v}, nil
}

func badShare(s string) error {
	return fmt.Errorf("share %q is not understood; use 0.9, 90%%, 9rpm or 100tpm", clip(s))
}

// FormatShare writes a share so that ParseShare reads it back.
func FormatShare(s limiter.Share) string {
	n := strconv.FormatFloat(s.Value, 'f', -1, 64)
	if s.Kind == limiter.SharePercent {
		return n
	}
	return n + string(s.Kind)
}

// shareFromJSON reads a share from a body: a number, a string of ParseShare,
// or {"type","value"}.
func shareFromJSON(raw json.RawMessage) (limiter.Share, error) {
	raw = bytes.TrimSpace(raw)
	switch {
	case len(raw) == 0 || bytes.Equal(raw, []byte("null")):
		return limiter.Share{}, fmt.Errorf("share is missing; use 0.9, 90%%, 9rpm or 100tpm")
	case raw[0] == '"':
		var s string
		if err := json.Unmarshal(raw, &s); err != nil {
			return limiter.Share{}, badShare(string(raw))
		}
		return ParseShare(s)
	case raw[0] == '{':
		var s limiter.Share
		if err := json.Unmarshal(raw, &s); err != nil {
			return limiter.Share{}, badShare(string(raw))
		}
		if errs := (limiter.Reservation{Shares: map[string]limiter.Share{"share": s}}).Validate(); len(errs) > 0 {
			return limiter.Share{}, errs[0]
		}
		return s, nil
	}
	var v float64
	if err := json.Unmarshal(raw, &v); err != nil || v < 0 {
		return limiter.Share{}, badShare(string(raw))
	}
	return ParseShare(strconv.FormatFloat(v, 'f', -1, 64))
}
