package e2e

import (
	"bytes"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"

	"sluice/examples/harness"
	"sluice/examples/upstream"
)

func TestNoSecretLeavesTheProcess(t *testing.T) {
	t.Parallel()
	up := startUpstream(t)
	const (
		master  = "sk-master-marker-51c0de"
		cluster = "cluster-secret-marker-0123456789abcdef"
		virtual = "sk-virtual-marker-a1b2c3d4e5"
		wrong   = "sk-wrong-marker-99887766"
	)
	secrets := map[string]string{
		"the master key": master, "the cluster secret": cluster, "a virtual key": virtual,
		"a wrong key": wrong, "the provider's key": providerKey,
	}
	c := start(t, harness.Options{Nodes: 3, MasterKey: master, ClusterSecret: cluster,
		Config: config(time.Minute, model(up, "m", "rpm = 3"))})
	n := c.Nodes[0]
	createKey(t, n, harness.KeySpec{Secret: virtual, Alias: "marked"})

	var shown []*harness.Reply
	ask := func(key, method, path string, body any) *harness.Reply {
		t.Helper()
		for _, n := range c.Nodes {
			r, err := n.As(key).Do(t.Context(), method, path, body, nil)
			if err != nil {
				t.Fatalf("%s %s: %v", method, path, err)
			}
			shown = append(shown, r)
		}
		return shown[len(shown)-1]
	}
	// What a provider says about its credential must not reach the caller.
	up.Play(upstream.Match{Model: "m"}, upstream.Step{Status: http.StatusUnauthorized,
		Body: fmt.Sprintf(`{"error":{"message":"Incorrect API key provided: %s","type":"invalid_request_error","param":null,"code":"invalid_api_key"}}`, providerKey)})
	body := map[string]any{"model": "m", "messages": []any{}}
	if r := ask(virtual, http.MethodPost, "/v1/chat/completions", body); r.Status != http.StatusOK {
		t.Fatalf("the third request: status %d: %s", r.Status, r.Body)
	}
	if r := shown[0]; r.Status != http.StatusBadGateway {
		t.Errorf("a provider's 401 is shown as %d: %s", r.Status, r.Body)
	}
	if r := ask(virtual, http.MethodPost, "/v1/chat/completions", body); r.Status != http.StatusTooManyRequests {
		t.Errorf("over the limit: status %d", r.Status)
	}
	ask(virtual, http.MethodPost, "/v1/chat/completions", "{")
	ask(virtual, http.MethodPost, "/v1/chat/completions", map[string]any{"model": "unknown"})
	ask(wrong, http.MethodPost, "/v1/chat/completions", body)
	ask(wrong, http.MethodPost, "/key/generate", map[string]any{})
	ask(virtual, http.MethodPost, "/key/generate", map[string]any{})
	ask(master, http.MethodPost, "/key/generate", map[string]any{"key": virtual})
	ask(master, http.MethodPost, "/key/update", map[string]any{"key": virtual, "rpm_limit": -1})
	ask(master, http.MethodPost, "/key/update", map[string]any{"key": wrong, "rpm_limit": 1})
	ask(master, http.MethodPost, "/key/generate", `{"key_alias": 7, "key": "`+wrong+`"`)
	for _, path := range []string{"/key/list", "/team/list", "/config", "/config/history", "/limits", "/cluster/status", "/metrics", "/nowhere/" + "x", "/health/readiness"} {
		ask(master, http.MethodGet, path, nil)
	}

	for _, r := range shown {
		for what, secret := range secrets {
			if bytes.Contains(r.Body, []byte(secret)) || bytes.Contains(fmt.Append(nil, r.Header), []byte(secret)) {
				t.Errorf("%s is shown in an answer of status %d: %s %v", what, r.Status, r.Body, r.Header)
			}
		}
	}
	for _, n := range c.Nodes {
		terminate(t, n) // leaves snapshots and a clean state file, if it ever does
		for what, secret := range secrets {
			if bytes.Contains([]byte(n.Log()), []byte(secret)) {
				t.Errorf("%s is in the log of %s", what, n.ID)
			}
			for _, file := range filesWith(t, n.DataDir, secret) {
				t.Errorf("%s is in %s of %s", what, file, n.ID)
			}
		}
	}
}

// filesWith returns the files below dir whose bytes hold the secret.
func filesWith(t *testing.T, dir, secret string) []string {
	t.Helper()
	var found []string
	files := 0
	err := filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		files++
		b, err := os.ReadFile(path)
		if err == nil && bytes.Contains(b, []byte(secret)) {
			found = append(found, filepath.Base(path))
		}
		return err
	})
	if err != nil || files == 0 {
		t.Errorf("read %s: %d files, %v", dir, files, err)
	}
	return found
}
