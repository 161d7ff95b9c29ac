package admin

import (
	"crypto/hmac"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"io"
	"strings"
)

const (
	secretPrefix = "sk-"
	// secretBytes of randomness are 22 characters of base64.
	secretBytes = 16
	secretChars = 22
	// The bounds of a secret that the caller chooses, prefix included.
	minSecret, maxSecret = 7, 256
	// tailFrom is the length from which a key's name shows the last four
	// characters; of a shorter one that would give too much away.
	tailFrom = 12
)

// hashSecret returns the id of a secret: SHA-256 of the whole string, lower-case hex.
func hashSecret(secret string) string {
	sum := sha256.Sum256([]byte(secret))
	return hex.EncodeToString(sum[:])
}

// nameSecret returns what of a secret may be shown later.
func nameSecret(secret string) string {
	if len(secret) < tailFrom {
		return secretPrefix + "..."
	}
	return secretPrefix + "..." + secret[len(secret)-4:]
}

// newSecret returns a fresh secret, or for an idempotent creation the one that
// every node derives from the same Idempotency-Key: only the hash is stored, so
// a repeated creation could not show a random one again. purpose keeps apart
// the secrets of different operations that were sent with the same key.
func (a *Admin) newSecret(purpose, idempotencyKey string) (string, error) {
	if idempotencyKey != "" {
		mac := hmac.New(sha256.New, []byte(a.o.MasterKey))
		mac.Write([]byte("sluice idempotency\x00" + purpose + idempotencyKey))
		return secretPrefix + base64.RawURLEncoding.EncodeToString(mac.Sum(nil))[:secretChars], nil
	}
	var b [secretBytes]byte
	if _, err := io.ReadFull(a.o.Rand, b[:]); err != nil {
		return "", fmt.Errorf("read randomness for a key: %w", err)
	}
	return secretPrefix + base64.RawURLEncoding.EncodeToString(b[:]), nil
}

// checkSecret refuses a secret that a caller chose and that could not work as one.
func (a *Admin) checkSecret(field, secret string) error {
	switch {
	case !strings.HasPrefix(secret, secretPrefix):
		return badRequest(field, "Invalid key format. LiteLLM Virtual Key must start with 'sk-'. Received: %s", mask(secret))
	case len(secret) < minSecret || len(secret) > maxSecret:
		return badRequest(field, "Invalid key format. A key has %d to %d characters.", minSecret, maxSecret)
	case !printable(secret, maxSecret):
		return badRequest(field, "Invalid key format. A key holds visible ASCII characters only.")
	case subtle.ConstantTimeCompare([]byte(hashSecret(secret)), []byte(hashSecret(a.o.MasterKey))) == 1:
		return badRequest(field, "The master key cannot be a virtual key.")
	}
	return nil
}

// keyID returns the id that a caller means by a raw key or a hash.
func keyID(given string) string {
	if strings.HasPrefix(given, secretPrefix) {
		return hashSecret(given)
	}
	return strings.ToLower(given)
}

// isKeyID reports whether id has the form of a hash.
func isKeyID(id string) bool {
	if len(id) != 2*sha256.Size {
		return false
	}
	return strings.Trim(id, "0123456789abcdef") == ""
}

// shortID returns enough of an id to find it again in a log.
func shortID(id string) string {
	if !isKeyID(id) {
		return "invalid"
	}
	return id[:12]
}

// mask hides the middle of a value that may be a secret, and all of a short one.
func mask(s string) string {
	if len(s) < 20 || !printable(s, 1<<16) {
		return "****"
	}
	return s[:4] + "****" + s[len(s)-2:]
}
