package admin

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	"sluice/fsm"
)

const (
	// uploadTime is how long the upload of a backup may take.
	uploadTime = 10 * time.Minute
	// stallTime is how long a client may take for one piece of a download.
	stallTime = 30 * time.Second
	// maxUpload has room for the header.
	maxUpload = fsm.MaxBackup + 64<<10
)

// backup answers GET /cluster/backup: the state as of a moment after the request
// began, so with every write that was acknowledged before. With ?stale=true it
// is what this node has, for a cluster that has lost its majority.
func (a *Admin) backup(w http.ResponseWriter, r *http.Request) error {
	stale, err := staleWanted(r)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(r.Context(), a.o.Timeout)
	defer cancel()
	if !stale && a.o.Refresh != nil {
		if err := a.o.Refresh(ctx); err != nil {
			return &Error{Status: http.StatusServiceUnavailable, RetryAfter: time.Second,
				Message: "The cluster has no leader that this node can ask, so the backup might lack acknowledged writes. Try again shortly, or take what this node has with ?stale=true (`sluice admin backup --stale`)."}
		}
	}
	b, err := a.o.State.Backup(a.o.Identity())
	if err != nil {
		return err
	}
	h := w.Header()
	h.Set("Content-Type", "application/octet-stream")
	h.Set("Content-Length", strconv.FormatInt(b.Size(), 10))
	h.Set("Content-Disposition", fmt.Sprintf(`attachment; filename="sluice-%s.backup"`, b.Info.CreatedAt.Format("20060102T150405Z")))
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Cache-Control", "no-store")
	if stale {
		h.Set("X-Sluice-Stale", "true")
	}
	if r.Method == http.MethodHead {
		return nil
	}
	if err := b.Write(&patientWriter{w: w, rc: http.NewResponseController(w)}); err != nil {
		// The length was announced, so the client notices what is missing.
		a.o.Logger.Warn("a backup was broken off", "error", err)
		panic(http.ErrAbortHandler)
	}
	a.o.Logger.Info("backup taken", "applied_index", b.Info.AppliedIndex, "bytes", b.Size())
	return nil
}

func staleWanted(r *http.Request) (bool, error) {
	switch s := r.URL.Query().Get("stale"); s {
	case "", "false":
		return false, nil
	case "true":
		return true, nil
	default:
		return false, badRequest("stale", "stale is true or false.")
	}
}

// patientWriter gives each write a deadline of its own.
type patientWriter struct {
	w  io.Writer
	rc *http.ResponseController
}

func (p *patientWriter) Write(b []byte) (int, error) {
	_ = p.rc.SetWriteDeadline(time.Now().Add(stallTime)) // a test's recorder has none
	return p.w.Write(b)
}

// RestoreAnswer answers POST /cluster/restore.
type RestoreAnswer struct {
	Status string `json:"status"` // restored
	fsm.RestoreResult
	Backup fsm.BackupInfo `json:"backup"`
}

// restore answers POST /cluster/restore, whose body is a backup. The whole file
// is here and checked before the cluster hears of it; from then on the client
// may leave, and the restore still ends.
func (a *Admin) restore(w http.ResponseWriter, r *http.Request) error {
	answer, err := a.restoreFrom(w, r)
	outcome := "done"
	if err != nil {
		outcome = "refused"
		if e := a.explain(err); e == nil || e.Type == "outcome_unknown" {
			outcome = "unknown"
		}
	}
	a.o.Logger.Info("management write", "who", "master", "route", "/cluster/restore", "target", "cluster", "outcome", outcome)
	if err != nil {
		return err
	}
	writeJSON(w, http.StatusOK, answer)
	return nil
}

func (a *Admin) restoreFrom(w http.ResponseWriter, r *http.Request) (*RestoreAnswer, error) {
	key, err := idempotencyKey(r.Header)
	if err != nil {
		return nil, err
	}
	data, err := readUpload(w, r)
	if err != nil {
		return nil, err
	}
	b, err := fsm.ParseBackup(data)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(r.Context()), a.o.RestoreTimeout)
	defer cancel()
	a.refresh(ctx) // the state machine has the last word
	o := fsm.WriteOptions{}
	if key != "" {
		o.IdempotencyKey = hashSecret("/cluster/restore\x00" + key)
	}
	result, err := a.o.Store.Restore(ctx, b, o)
	if err != nil {
		return nil, err
	}
	return &RestoreAnswer{Status: "restored", RestoreResult: result, Backup: b.Info}, nil
}

func readUpload(w http.ResponseWriter, r *http.Request) ([]byte, error) {
	if enc := r.Header.Get("Content-Encoding"); enc != "" && enc != "identity" {
		return nil, &Error{Status: http.StatusUnsupportedMediaType, Message: "A backup is sent as it is, without Content-Encoding."}
	}
	if r.ContentLength > maxUpload {
		return nil, &http.MaxBytesError{Limit: maxUpload}
	}
	_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(uploadTime)) // a test's recorder has none
	var buf bytes.Buffer
	if r.ContentLength > 0 {
		buf.Grow(int(min(r.ContentLength, 1<<20)))
	}
	if _, err := buf.ReadFrom(http.MaxBytesReader(w, r.Body, maxUpload)); err != nil {
		var tooLarge *http.MaxBytesError
		if errors.As(err, &tooLarge) {
			return nil, err
		}
		return nil, badRequest("", "The upload broke off, so nothing was changed. Send the backup again.")
	}
	return buf.Bytes(), nil
}

// explainRestore words what only a restore answers.
func explainRestore(err error) *Error {
	bad := func(format string, args ...any) *Error {
		e := badRequest("", format, args...)
		e.Message += " Nothing was changed."
		return e
	}
	switch {
	case errors.Is(err, fsm.ErrNotBackup):
		return bad("That is %s; send a file that `sluice admin backup` wrote.", oneLine(err.Error()))
	case errors.Is(err, fsm.ErrNewerFormat):
		return bad("The backup was %s; restore it with that version or a later one.", oneLine(err.Error()))
	case errors.Is(err, fsm.ErrDamaged):
		return bad("The backup is %s; use another copy.", oneLine(err.Error()))
	case errors.Is(err, fsm.ErrNotFresh):
		return &Error{Status: http.StatusConflict, Message: "A backup is restored into a fresh cluster, and this one is not: " + notFresh(err) +
			". Start nodes with empty data directories, and restore before anything is created. Nothing was changed."}
	case errors.Is(err, fsm.ErrRestoring):
		return &Error{Status: http.StatusConflict, Message: "Another restore is under way. Wait for its end; if its node has died it is forgotten after half a minute. Nothing was changed."}
	case errors.Is(err, fsm.ErrRestoreLost):
		return &Error{Status: http.StatusConflict, Message: "The restore stood still for too long and was given up. Nothing was changed; send it again."}
	}
	return nil
}

// notFresh says what is there. An answer that travelled has only the fact.
func notFresh(err error) string {
	_, detail, ok := strings.Cut(err.Error(), fsm.ErrNotFresh.Error()+": ")
	if !ok {
		return "somebody has created something meanwhile"
	}
	return oneLine(detail)
}
