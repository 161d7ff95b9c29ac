package proxy

import (
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"net/http"
	"strings"
	"time"

	"sluice/fsm"
)

// Identity is who sent a request, found in its headers and in one view.
type Identity struct {
	Master bool      // the master key: no limits, no allow-lists
	Key    *fsm.Key  // nil for the master key
	Team   *fsm.Team // nil for none
}

// priority returns the claimed priority: the team's, else the key's.
func (id Identity) priority() string {
	if id.Team != nil && id.Team.Priority() != "" {
		return id.Team.Priority()
	}
	if id.Key != nil {
		return id.Key.Priority()
	}
	return ""
}

// keyID returns the hash of the virtual key, "" for the master key.
func (id Identity) keyID() string {
	if id.Key == nil {
		return ""
	}
	return id.Key.ID
}

// teamID returns the team, "" for none.
func (id Identity) teamID() string {
	if id.Team == nil {
		return ""
	}
	return id.Team.ID
}

// credentialHeaders in the order in which they count, in canonical form.
var credentialHeaders = [...]string{"X-Litellm-Api-Key", "Authorization", "Api-Key", "X-Api-Key", "X-Goog-Api-Key"}

// Identify finds the sender of a request from its headers alone; the body is
// not touched. A key that this node does not know is looked up again after
// asking the leader. It does not say whether a key may be used (Usable). The
// error is an *Error: 400 for two different valid keys, 401, or 503 when the
// leader could not be asked.
func (p *Proxy) Identify(r *http.Request) (Identity, error) {
	id, _, err := p.identify(r)
	return id, err
}

// identify also returns the view in which the sender was found.
func (p *Proxy) identify(r *http.Request) (Identity, *fsm.View, error) {
	view := p.view()
	token, sum, err := p.firstKey(r.Header)
	if err != nil {
		return Identity{}, view, err
	}
	id, ok := p.find(view, sum)
	if !ok && p.refresh != nil {
		if err := p.refresh.wait(r.Context()); err != nil {
			return Identity{}, view, keyUndecided(err)
		}
		view = p.view()
		id, ok = p.find(view, sum)
	}
	if !ok {
		return Identity{}, view, unknownKey(token, sum)
	}
	if id.Key != nil && id.Key.TeamID != "" {
		if id.Team, ok = view.Team(id.Key.TeamID); !ok {
			return Identity{}, view, &Error{
				Status: http.StatusUnauthorized, Type: typeAuth, Param: "None",
				Message: "Authentication Error, Team=" + id.Key.TeamID + " does not exist.",
			}
		}
	}
	if p.conflict(r.Header, view, sum) {
		return Identity{}, view, badRequest("", "Two different valid keys were sent in one request; send one.")
	}
	return id, view, nil
}

type digest = [sha256.Size]byte

// find looks a hash up. The comparison with the master key's is in constant
// time; the look-up of a hash tells nothing about a key.
func (p *Proxy) find(view *fsm.View, sum digest) (Identity, bool) {
	if subtle.ConstantTimeCompare(sum[:], p.master[:]) == 1 {
		return Identity{Master: true}, true
	}
	var text [2 * sha256.Size]byte
	hex.Encode(text[:], sum[:])
	k, ok := view.Key(string(text[:]))
	return Identity{Key: k}, ok
}

// firstKey returns the first gateway-shaped key and its hash.
func (p *Proxy) firstKey(h http.Header) (string, digest, error) {
	var foreign string // the first credential that is no gateway key
	bare := false      // Authorization came without a scheme
	for _, name := range credentialHeaders {
		for _, v := range h[name] {
			token, noScheme := tokenOf(name, v)
			bare = bare || noScheme
			if token == "" {
				continue
			}
			if sum, ok := p.shaped(token); ok {
				return token, sum, nil
			}
			if foreign == "" {
				foreign = token
			}
		}
	}
	message := "Authentication Error, No api key passed in."
	switch {
	case foreign != "":
		message = "LiteLLM Virtual Key expected. Received=" + masked(foreign) + ", expected to start with 'sk-'."
	case bare:
		message = "Authentication Error, Malformed API Key passed in. Ensure Key has `Bearer ` prefix."
	}
	return "", digest{}, &Error{Status: http.StatusUnauthorized, Type: typeAuth, Param: "None", Message: message}
}

// shaped reports whether a token looks like one of ours, and returns its hash.
func (p *Proxy) shaped(token string) (digest, bool) {
	if !strings.HasPrefix(token, "sk-") && p.masterShaped {
		return digest{}, false
	}
	sum := hash(token)
	if strings.HasPrefix(token, "sk-") {
		return sum, true
	}
	return sum, subtle.ConstantTimeCompare(sum[:], p.master[:]) == 1
}

// conflict reports whether a second valid key came with the request.
func (p *Proxy) conflict(h http.Header, view *fsm.View, first digest) bool {
	for _, name := range credentialHeaders {
		for _, v := range h[name] {
			token, _ := tokenOf(name, v)
			if token == "" {
				continue
			}
			sum, ok := p.shaped(token)
			if !ok || sum == first {
				continue
			}
			if _, valid := p.find(view, sum); valid {
				return true
			}
		}
	}
	return false
}

// tokenOf takes the credential out of a header value: without its scheme, ""
// if there is none. noScheme reports an Authorization that is a bare word.
func tokenOf(header, v string) (token string, noScheme bool) {
	v = strings.Trim(v, " \t")
	scheme, rest, found := strings.Cut(v, " ")
	if found && (strings.EqualFold(scheme, "bearer") || strings.EqualFold(scheme, "basic")) {
		return strings.Trim(rest, " \t"), false
	}
	if strings.EqualFold(v, "bearer") || strings.EqualFold(v, "basic") {
		return "", false
	}
	if header != "Authorization" {
		return v, false
	}
	return "", v != "" && !found
}

// hash returns the SHA-256 of a key, without an allocation for one of usual length.
func hash(token string) digest {
	var b [128]byte
	if len(token) > len(b) {
		return sha256.Sum256([]byte(token))
	}
	return sha256.Sum256(b[:copy(b[:], token)])
}

// redacted returns the form in which a key may be shown.
func redacted(token string) string {
	if len(token) < 16 {
		return "sk-..."
	}
	return "sk-..." + printable(token[len(token)-4:])
}

// masked is redacted for what is not one of our keys.
func masked(token string) string {
	if len(token) < 16 {
		return "****"
	}
	return "****" + printable(token[len(token)-4:])
}

func printable(s string) string {
	return strings.Map(func(r rune) rune {
		if r <= ' ' || r > '~' {
			return '?'
		}
		return r
	}, s)
}

func unknownKey(token string, sum digest) *Error {
	return &Error{
		Status: http.StatusUnauthorized, Type: "token_not_found_in_db", Param: "key",
		Message: "Authentication Error, Invalid proxy server token passed. Received API Key = " + redacted(token) +
			", Key Hash (Token) =" + hex.EncodeToString(sum[:]) +
			". Unable to find token in cache or `LiteLLM_VerificationTokenTable`",
	}
}

func keyUndecided(err error) *Error {
	return &Error{
		Status: http.StatusServiceUnavailable, Type: typeUnavailable, LimitedBy: "quorum", cause: err,
		Message: "This node does not know the key and could not ask the cluster's leader about it. Try again.",
	}
}

// Usable returns an *Error (401) if the key or its team is blocked or the key
// has expired at now, else nil.
func (id Identity) Usable(now time.Time) error {
	if id.Key == nil {
		return nil
	}
	e := &Error{Status: http.StatusUnauthorized, Type: typeAuth, Param: "None"}
	switch {
	case id.Key.Blocked:
		e.Message = "Authentication Error, Key is blocked. Update via `/key/unblock` if you're an admin."
	case id.Key.Expired(now):
		e.Type, e.Param = "expired_key", id.Key.Name
		e.Message = "Authentication Error - Expired Key. Key Expiry time " + id.Key.Expires.UTC().Format(time.RFC3339) +
			" and current time " + now.UTC().Format(time.RFC3339)
	case id.Team != nil && id.Team.Blocked:
		e.Message = "Authentication Error, Team=" + id.Team.ID + " is blocked. Update via `/team/unblock` if you're an admin."
	default:
		return nil
	}
	return e
}
