package admin

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strconv"
	"strings"

	"sluice/fsm"
)

// maxSource is the longest name of a configuration's origin, in bytes.
const maxSource = 255

// ConfigAnswer answers GET /config.
type ConfigAnswer struct {
	Version  uint64     `json:"version"` // 0: none yet
	Config   fsm.Config `json:"config"`
	Warnings []string   `json:"warnings"`
}

// ConfigRequest is the body of POST /config.
type ConfigRequest struct {
	Config fsm.Config `json:"config"`
	Source string     `json:"source"` // shown in the history
}

// ConfigWritten answers every write of configuration.
type ConfigWritten struct {
	Version uint64 `json:"version"` // that holds now
	Status  string `json:"status"`  // applied | unchanged
}

// ConfigHistory answers GET /config/history, newest first.
type ConfigHistory struct {
	Versions []ConfigVersion `json:"versions"`
}

// ConfigVersion is one entry of the history.
type ConfigVersion struct {
	Version   uint64 `json:"version"`
	AppliedAt string `json:"applied_at"`
	Source    string `json:"source"`
	Current   bool   `json:"current"`
}

func (a *Admin) showConfig(context.Context, *call) (any, error) {
	v := a.o.State.View()
	return ConfigAnswer{Version: v.ConfigVersion(), Config: v.Config().Config, Warnings: list(v.Config().Warnings)}, nil
}

// applyConfig answers POST /config {"config","source"?}. Unlike elsewhere an
// unknown member is refused: it would be a setting that silently does nothing.
func (a *Admin) applyConfig(ctx context.Context, c *call) (any, error) {
	if c.body.isNull("config") {
		return nil, missing("body", "config")
	}
	source, err := c.body.text("source")
	if err != nil {
		return nil, err
	}
	if len(source) > maxSource {
		return nil, badRequest("source", "source is longer than %d bytes.", maxSource)
	}
	if source == "" {
		source = "api"
	}
	cfg := fsm.DefaultConfig() // a member that is left out means its default, not 0
	dec := json.NewDecoder(bytes.NewReader(c.body["config"]))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&cfg); err != nil {
		return nil, badRequest("config", "config cannot be read: %s", configFault(err))
	}
	c.target = source
	return written(a.o.Store.ApplyConfig(ctx, cfg, source, c.write))
}

// configFault words a decoding error without repeating values, which may be secrets.
func configFault(err error) string {
	var wrong *json.UnmarshalTypeError
	if errors.As(err, &wrong) {
		return wrong.Field + " has the wrong type"
	}
	return clip(scrub(err.Error()))
}

// scrub takes everything that looks like a secret out of a message.
func scrub(s string) string {
	parts := strings.Split(s, secretPrefix)
	for i := 1; i < len(parts); i++ {
		end := strings.IndexFunc(parts[i], func(r rune) bool { return r <= ' ' || strings.ContainsRune("\"',;:}]", r) })
		if end < 0 {
			end = len(parts[i])
		}
		parts[i] = "****" + parts[i][end:]
	}
	return strings.Join(parts, secretPrefix)
}

// rollbackConfig answers POST /config/rollback {"version"}.
func (a *Admin) rollbackConfig(ctx context.Context, c *call) (any, error) {
	if c.body.isNull("version") {
		return nil, missing("body", "version")
	}
	var version uint64
	if json.Unmarshal(c.body["version"], &version) != nil {
		return nil, wrongType("int_type", "Input should be a valid integer", c.body["version"], "body", "version")
	}
	c.target = strconv.FormatUint(version, 10)
	answer, err := written(a.o.Store.RollbackConfig(ctx, version, c.write))
	if errors.Is(err, fsm.ErrNotFound) {
		return nil, notFound("version", "Version %d is not in the history; `sluice admin config history` lists what is.", version)
	}
	return answer, err
}

func (a *Admin) configHistory(context.Context, *call) (any, error) {
	v := a.o.State.View()
	history := v.ConfigHistory()
	answer := ConfigHistory{Versions: make([]ConfigVersion, 0, len(history))}
	for i := len(history) - 1; i >= 0; i-- {
		h := history[i]
		answer.Versions = append(answer.Versions, ConfigVersion{Version: h.Version, AppliedAt: timestamp(h.AppliedAt), Source: h.Source, Current: h.Version == v.ConfigVersion()})
	}
	return answer, nil
}

func written(r fsm.ConfigResult, err error) (any, error) {
	var invalid *fsm.InvalidConfigError
	if errors.As(err, &invalid) {
		return nil, refuseConfig(invalid)
	}
	if err != nil {
		return nil, err
	}
	return ConfigWritten{Version: r.Version, Status: r.Status}, nil
}

// refuseConfig shows all faults at once: in the message for people, one by one
// in detail for programs.
func refuseConfig(e *fsm.InvalidConfigError) error {
	refusal := &Error{Status: http.StatusBadRequest, Message: e.Error(), Detail: e.Problems}
	if len(e.Problems) > 0 {
		refusal.Param = e.Problems[0].Path
	}
	return refusal
}
