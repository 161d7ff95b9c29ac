package admin

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"time"

	"sluice/fsm"
)

// Backup writes a backup to w and returns its header once all of it has been
// checked; after an error what w got is worth nothing. stale takes what the
// asked node has, although it may lack acknowledged writes.
func (c *Client) Backup(ctx context.Context, w io.Writer, stale bool) (*fsm.BackupInfo, error) {
	query := url.Values{}
	if stale {
		query.Set("stale", "true")
	}
	for try := 0; ; try++ {
		info, err := c.backupOnce(ctx, w, query)
		if again, ok := c.again(ctx, err, try); !ok {
			return info, again
		}
	}
}

func (c *Client) backupOnce(ctx context.Context, w io.Writer, query url.Values) (*fsm.BackupInfo, error) {
	resp, err := c.open(ctx, http.MethodGet, "/cluster/backup", query, nil, 0, "")
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	to := &failing{w: w}
	info, err := fsm.VerifyBackup(io.TeeReader(resp.Body, to))
	switch {
	case to.err != nil:
		return nil, fmt.Errorf("write the backup: %w", to.err)
	case errors.Is(err, fsm.ErrNotBackup):
		return nil, fmt.Errorf("%s is not sluice: its answer is %w", c.base.Host, err)
	case err != nil && (ctx.Err() != nil || !errors.Is(err, fsm.ErrDamaged) && !errors.Is(err, fsm.ErrNewerFormat)):
		return nil, c.unreachable(ctx, http.MethodGet, err)
	case err != nil:
		return nil, fmt.Errorf("the backup did not arrive whole: %w", err)
	}
	return info, nil
}

// failing remembers why its writer failed.
type failing struct {
	w   io.Writer
	err error
}

func (f *failing) Write(p []byte) (int, error) {
	n, err := f.w.Write(p)
	f.err = err
	return n, err
}

// Restore sends a backup of size bytes. r is read again from its start when a
// node answers that it cannot now; nothing is restored twice.
func (c *Client) Restore(ctx context.Context, r io.ReadSeeker, size int64) (*RestoreAnswer, error) {
	id, err := newUUID(c.o.Rand)
	if err != nil {
		return nil, fmt.Errorf("make Idempotency-Key: %w", err)
	}
	for try := 0; ; try++ {
		answer, err := c.restoreOnce(ctx, r, size, id)
		if again, ok := c.again(ctx, err, try); !ok {
			return answer, again
		}
	}
}

func (c *Client) restoreOnce(ctx context.Context, r io.ReadSeeker, size int64, id string) (*RestoreAnswer, error) {
	if _, err := r.Seek(0, io.SeekStart); err != nil {
		return nil, fmt.Errorf("read the backup: %w", err)
	}
	resp, err := c.open(ctx, http.MethodPost, "/cluster/restore", nil, io.NopCloser(r), size, id)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(io.LimitReader(resp.Body, 1<<20))
	if err != nil {
		return nil, c.unreachable(ctx, http.MethodPost, err)
	}
	var answer RestoreAnswer
	if err := json.Unmarshal(b, &answer); err != nil {
		return nil, fmt.Errorf("%s is not sluice: its answer to /cluster/restore could not be read", c.base.Host)
	}
	return &answer, nil
}

// again waits and returns true if a node answered 503 and there are tries left.
func (c *Client) again(ctx context.Context, err error, try int) (error, bool) {
	var refused *Error
	if !errors.As(err, &refused) || refused.Status != http.StatusServiceUnavailable || try >= c.o.Retries {
		return err, false
	}
	return err, c.o.Sleep(ctx, min(max(refused.RetryAfter, 100*time.Millisecond), maxRetryWait)) == nil
}

// open sends a request whose body or answer is no JSON, and returns an answer
// that is a success.
func (c *Client) open(ctx context.Context, method, path string, query url.Values, body io.ReadCloser, size int64, id string) (*http.Response, error) {
	u := c.base.JoinPath(path)
	u.RawQuery = query.Encode()
	req, err := http.NewRequestWithContext(ctx, method, u.String(), nil)
	if err != nil {
		return nil, fmt.Errorf("make request: %w", err)
	}
	req.Header.Set("Authorization", "Bearer "+c.o.MasterKey)
	if method == http.MethodPost {
		req.Body, req.ContentLength = body, size
		if size == 0 {
			req.Body = http.NoBody
		}
		req.Header.Set("Content-Type", "application/octet-stream")
		req.Header.Set("Idempotency-Key", id)
	}
	resp, err := c.o.HTTP.Do(req)
	if err != nil {
		return nil, c.unreachable(ctx, method, err)
	}
	if resp.StatusCode == http.StatusOK {
		return resp, nil
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(io.LimitReader(resp.Body, 1<<20))
	if err != nil {
		return nil, c.unreachable(ctx, method, err)
	}
	return nil, refusal(resp, b)
}
