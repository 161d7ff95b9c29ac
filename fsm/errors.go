package fsm

import (
	"errors"
	"fmt"
	"strings"
)

// Answers of the state machine and of Open. Match them with errors.Is.
var (
	// ErrNotFound is returned when the key, team or configuration version that
	// a write names does not exist. Nothing was changed.
	ErrNotFound = errors.New("not found")
	// ErrExists is returned when a key hash or team id is taken. Nothing was changed.
	ErrExists = errors.New("already exists")
	// ErrAliasTaken is returned when another key has the alias. Nothing was changed.
	ErrAliasTaken = errors.New("key alias is taken")
	// ErrLocked is returned by Open when another process uses the directory.
	ErrLocked = errors.New("data directory is in use by another process")
	// ErrDamaged is returned by Open when a damaged state file cannot be moved
	// out of the way, and by Restore for a snapshot that is cut or altered.
	// The state in memory is unchanged.
	ErrDamaged = errors.New("damaged")
	// ErrNewerFormat is returned by Restore for a snapshot that a newer version
	// of sluice wrote. The state in memory is unchanged.
	ErrNewerFormat = errors.New("written by a newer version of sluice")
	// ErrStopped is returned by everything that would need another applied entry
	// after the state machine met one that it must not skip and cannot read.
	ErrStopped = errors.New("state machine is stopped: it met a log entry it cannot apply")
	// ErrClosed is returned after Close.
	ErrClosed = errors.New("state machine is closed")
)

// errReplayed answers an entry that the state already contains. Nobody waits
// for such an answer; it exists so that none is mistaken for a result.
var errReplayed = errors.New("log entry was applied before")

// InvalidError is returned when a value cannot be stored. Nothing was changed.
type InvalidError struct {
	Field string // JSON name, such as "key_alias" or "metadata.priority"
	Msg   string // what is wrong with it and what would be right
}

// Error returns field and message.
func (e *InvalidError) Error() string { return e.Field + ": " + e.Msg }

func invalid(field, format string, args ...any) *InvalidError {
	return &InvalidError{Field: field, Msg: fmt.Sprintf(format, args...)}
}

// InvalidConfigError is returned when a configuration is refused. Nothing was
// changed; Problems holds every fault.
type InvalidConfigError struct {
	Problems []ConfigError
}

// Error returns all problems, one after the other.
func (e *InvalidConfigError) Error() string {
	texts := make([]string, len(e.Problems))
	for i, p := range e.Problems {
		texts[i] = p.Error()
	}
	return "invalid configuration: " + strings.Join(texts, "; ")
}

// ConfigError is one fault of a configuration.
type ConfigError struct {
	Path   string `json:"path"`             // in TOML terms: models.NAME.rpm, aliases.fast
	Msg    string `json:"message"`          // what is wrong; never repeats a secret
	Remedy string `json:"remedy,omitempty"` // what to do about it
}

// Error returns path, message and remedy in one line.
func (e ConfigError) Error() string {
	s := e.Path + ": " + e.Msg
	if e.Remedy != "" {
		s += "; " + e.Remedy
	}
	return s
}
