package fsm

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"regexp"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"

	"sluice/limiter"
)

// The rules for records live here and run inside the state machine, so that
// two nodes cannot judge differently. They are part of the log's format.

const maxText = 255 // bytes of an alias, id or name

var keyID = regexp.MustCompile(`^[0-9a-f]{64}$`)

// finish brings a key into its stored form, checks it and derives what is read
// on the hot path.
func (k *Key) finish(c *Compiled) error {
	if !keyID.MatchString(k.ID) {
		return invalid("token", "is not a SHA-256 in lower-case hex")
	}
	if err := checkText("key_name", k.Name); err != nil {
		return err
	}
	alias, err := cleanAlias(k.Alias)
	if err != nil {
		return err
	}
	k.Alias = alias
	if err := errors.Join(checkText("team_id", k.TeamID), checkText("user_id", k.UserID)); err != nil {
		return firstInvalid(err)
	}
	k.Expires, k.CreatedAt, k.UpdatedAt = k.Expires.UTC(), k.CreatedAt.UTC(), k.UpdatedAt.UTC()
	k.Models, k.ModelRPM, k.ModelTPM = tidy(k.Models), dropUnset(k.ModelRPM), dropUnset(k.ModelTPM)
	if k.priority, err = priorityOf(k.Metadata); err != nil {
		return err
	}
	k.derive(c)
	return nil
}

// derive computes the policy, which depends on the configuration's aliases.
func (k *Key) derive(c *Compiled) {
	k.policy = subjectPolicy(k.RPM, k.TPM, k.MaxParallel, k.ModelRPM, k.ModelTPM, c)
}

func (k *Key) hasPerModel() bool { return len(k.ModelRPM)+len(k.ModelTPM) > 0 }

// finish brings a team into its stored form, like Key.finish.
func (t *Team) finish(c *Compiled) error {
	if t.ID == "" {
		return invalid("team_id", "is empty")
	}
	err := errors.Join(checkText("team_id", t.ID), checkText("team_alias", t.Alias))
	if err != nil {
		return firstInvalid(err)
	}
	t.CreatedAt, t.UpdatedAt = t.CreatedAt.UTC(), t.UpdatedAt.UTC()
	t.Models, t.ModelRPM, t.ModelTPM = tidy(t.Models), dropUnset(t.ModelRPM), dropUnset(t.ModelTPM)
	if t.priority, err = priorityOf(t.Metadata); err != nil {
		return err
	}
	t.derive(c)
	return nil
}

func (t *Team) derive(c *Compiled) {
	t.policy = subjectPolicy(t.RPM, t.TPM, t.MaxParallel, t.ModelRPM, t.ModelTPM, c)
}

func (t *Team) hasPerModel() bool { return len(t.ModelRPM)+len(t.ModelTPM) > 0 }

func subjectPolicy(rpm, tpm, parallel limiter.Limit, modelRPM, modelTPM map[string]limiter.Limit, c *Compiled) *limiter.SubjectPolicy {
	p := &limiter.SubjectPolicy{
		Limits:   limiter.Limits{Requests: rpm, Tokens: tpm, Parallel: parallel},
		PerModel: perModel(modelRPM, modelTPM, c),
	}
	if !p.Limits.Any() && p.PerModel == nil {
		return nil
	}
	return p
}

// cleanAlias returns the stored form of a key alias: NFC, trimmed, case kept.
// What people cannot see is refused, because it would make two aliases look alike.
func cleanAlias(alias string) (string, error) {
	if len(alias) > 4*maxText {
		return "", invalid("key_alias", "is longer than %d bytes", maxText)
	}
	if !utf8.ValidString(alias) {
		return "", invalid("key_alias", "is not valid UTF-8")
	}
	alias = strings.TrimSpace(norm.NFC.String(alias))
	if len(alias) > maxText {
		return "", invalid("key_alias", "is longer than %d bytes", maxText)
	}
	for _, r := range alias {
		if isInvisible(r) {
			return "", invalid("key_alias", "holds the invisible character U+%04X; leave it out", r)
		}
	}
	return alias, nil
}

// checkText bounds what is only compared and shown.
func checkText(name, s string) error {
	if len(s) > maxText {
		return invalid(name, "is longer than %d bytes", maxText)
	}
	if !utf8.ValidString(s) {
		return invalid(name, "is not valid UTF-8")
	}
	for _, r := range s {
		if isInvisible(r) {
			return invalid(name, "holds the invisible character U+%04X; leave it out", r)
		}
	}
	return nil
}

// invisible lists controls, zero-width and direction characters, line
// separators, variation selectors, and fillers that show nothing. It is a fixed
// list and not a property of Go's Unicode tables: those change with the
// compiler, and the replicas must judge alike.
var invisible = &unicode.RangeTable{
	R16: []unicode.Range16{
		{0x0000, 0x001f, 1}, {0x007f, 0x009f, 1}, {0x00ad, 0x034f, 0x034f - 0x00ad},
		{0x061c, 0x061c, 1}, {0x115f, 0x1160, 1}, {0x17b4, 0x17b5, 1}, {0x180b, 0x180f, 1},
		{0x200b, 0x200f, 1}, {0x2028, 0x202e, 1}, {0x2060, 0x206f, 1}, {0x2800, 0x3164, 0x3164 - 0x2800},
		{0xfe00, 0xfe0f, 1}, {0xfeff, 0xffa0, 0xffa0 - 0xfeff}, {0xfff0, 0xfffb, 1}, {0xfffd, 0xffff, 1},
	},
	R32: []unicode.Range32{
		{0x110bd, 0x110cd, 0x10}, {0x1bca0, 0x1bca3, 1}, {0x1d173, 0x1d17a, 1}, {0xe0000, 0xe0fff, 1},
	},
	LatinOffset: 2,
}

func isInvisible(r rune) bool { return unicode.Is(invisible, r) }

// priorityOf reads metadata.priority.
func priorityOf(metadata map[string]any) (string, error) {
	switch p := metadata["priority"].(type) {
	case nil:
		return "", nil
	case string:
		return p, checkText("metadata.priority", p)
	default:
		return "", invalid("metadata.priority", "is not a text")
	}
}

// tidy returns nil for an empty list, so that "all" has one form.
func tidy(list []string) []string {
	if len(list) == 0 {
		return nil
	}
	return slices.Clone(list)
}

// dropUnset removes null limits, which mean the same as absent ones.
func dropUnset(m map[string]limiter.Limit) map[string]limiter.Limit {
	out := maps.Clone(m)
	maps.DeleteFunc(out, func(_ string, l limiter.Limit) bool { return !l.IsSet() })
	if len(out) == 0 {
		return nil
	}
	return out
}

func firstInvalid(err error) error {
	var first *InvalidError
	if errors.As(err, &first) {
		return first
	}
	return err
}

// decodeJSON reads one value without losing digits, and refuses what it does
// not know: a field of a newer version must not be dropped in silence.
func decodeJSON(b []byte, to any) error {
	d := json.NewDecoder(bytes.NewReader(b))
	d.UseNumber()
	d.DisallowUnknownFields()
	if err := d.Decode(to); err != nil {
		return err
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return errors.New("more than one JSON value")
	}
	return nil
}

// jsonFault says in a client's terms why a value was not taken.
func jsonFault(err error) string {
	var wrong *json.UnmarshalTypeError
	if errors.As(err, &wrong) {
		return fmt.Sprintf("is %s, which does not fit", wrong.Value)
	}
	return err.Error()
}
