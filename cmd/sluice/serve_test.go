package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// output collects what a command prints while others read it.
type output struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.b.Write(p)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.b.String()
}

// process is `sluice serve` inside the test.
type process struct {
	t              *testing.T
	stdout, stderr output
	signals        chan os.Signal
	code           chan int
	url            string
	key            string // master key
}

const testKey = "sk-test-master"

// serveTest runs a node on free ports and waits until it is ready.
func serveTest(t *testing.T, args ...string) *process {
	t.Helper()
	p := launch(t, args...)
	p.key = testKey
	p.url = "http://" + p.eventually(regexp.MustCompile(`msg=serving http=(\S+)`))
	p.poll("readiness", func() bool { return p.status("/health/readiness") == http.StatusOK })
	return p
}

// launch runs a node on free ports.
func launch(t *testing.T, args ...string) *process {
	t.Helper()
	p := &process{t: t, signals: make(chan os.Signal, 4), code: make(chan int, 1)}
	args = append([]string{"serve", "--listen", "127.0.0.1:0", "--cluster-listen", "127.0.0.1:0"}, args...)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		p.code <- run(ctx, args, environ{
			stdout: &p.stdout, stderr: &p.stderr, lookup: variables(map[string]string{"SLUICE_MASTER_KEY": testKey}),
			signals: func() (<-chan os.Signal, func()) { return p.signals, func() {} },
		})
	}()
	t.Cleanup(func() {
		cancel()
		<-ended
		if t.Failed() {
			t.Logf("the node wrote\n%s%s", p.stdout.String(), p.stderr.String())
		}
	})
	return p
}

func (p *process) poll(what string, ok func() bool) {
	p.t.Helper()
	deadline := time.Now().Add(20 * time.Second)
	for !ok() {
		if time.Now().After(deadline) {
			p.t.Fatalf("waited in vain for %s", what)
		}
		time.Sleep(5 * time.Millisecond)
	}
}

// eventually waits until the log matches and returns the first group.
func (p *process) eventually(re *regexp.Regexp) (group string) {
	p.t.Helper()
	p.poll(re.String(), func() bool {
		m := re.FindStringSubmatch(p.stderr.String())
		if m != nil {
			group = m[len(m)-1]
		}
		return m != nil
	})
	return group
}

// exit waits for the end and returns the exit code.
func (p *process) exit() int {
	p.t.Helper()
	select {
	case c := <-p.code:
		return c
	case <-time.After(30 * time.Second):
		p.t.Fatal("the node does not end")
		return 0
	}
}

// call sends a request and returns status and body, or 0 if there was no answer.
func (p *process) call(method, path, key, body string) (int, string) {
	r, err := http.NewRequest(method, p.url+path, strings.NewReader(body))
	if err != nil {
		p.t.Error(err)
		return 0, ""
	}
	r.Header.Set("Authorization", "Bearer "+key)
	r.Header.Set("Content-Type", "application/json")
	transport := &http.Transport{DisableKeepAlives: true}
	resp, err := (&http.Client{Transport: transport, Timeout: 20 * time.Second}).Do(r)
	if err != nil {
		return 0, err.Error()
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		return 0, err.Error()
	}
	return resp.StatusCode, string(b)
}

func (p *process) status(path string) int {
	code, _ := p.call("GET", path, "", "")
	return code
}

// newKey creates a virtual key.
func (p *process) newKey() string {
	p.t.Helper()
	code, body := p.call("POST", "/key/generate", p.key, "{}")
	var answer struct {
		Key string `json:"key"`
	}
	if err := json.Unmarshal([]byte(body), &answer); err != nil || code != 200 || answer.Key == "" {
		p.t.Fatalf("create a key: %d %s", code, body)
	}
	return answer.Key
}

func (p *process) chat(key string) (int, string) {
	return p.call("POST", "/v1/chat/completions", key, `{"model":"my-fake-model","messages":[{"role":"user","content":"Hello world!"}]}`)
}

const configHead = "[gateway]\nmaster_key = \"os.environ/SLUICE_MASTER_KEY\"\ndrain = \"%s\"\n[[models]]\nname = \"my-fake-model\"\nprovider = \"mock\"\nmock_response = \"hello-world\"\n%s\n"

// configFile writes a configuration with one mock model.
func configFile(t *testing.T, drain, model string) string {
	t.Helper()
	return writeFile(t, "sluice.toml", fmt.Sprintf(configHead, drain, model))
}

func TestQuickStart(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	p := serveTest(t, "--config", filepath.Join("..", "..", "examples", "quickstart.toml"), "--data-dir", dir)
	one, two := p.newKey(), p.newKey()
	for _, key := range []string{one, two} {
		if code, body := p.chat(key); code != 200 || !strings.Contains(body, "hello-world") {
			t.Fatalf("%d %s", code, body)
		}
	}
	const want = "Model capacity reached for my-fake-model. Priority: None, Rate limit type: tokens, Model TPM: 60, Model RPM: not configured, Remaining: 0"
	if code, body := p.chat(two); code != 429 || !strings.Contains(body, want) {
		t.Errorf("%d %s", code, body)
	}
	var out, errs output
	code := run(t.Context(), []string{"admin", "--server", p.url, "--master-key", testKey, "-o", "json", "limits", "my-fake-model"},
		environ{stdout: &out, stderr: &errs, lookup: variables(nil)})
	if code != 0 || !strings.Contains(out.String(), `"used": 60`) && !strings.Contains(out.String(), `"used":60`) {
		t.Errorf("admin limits: %d %s %s", code, out.String(), errs.String())
	}
	for _, metric := range []string{"sluice_raft_term", `sluice_saturation{model="my-fake-model"} 1`, "sluice_limited_total"} {
		if _, body := p.call("GET", "/metrics", testKey, ""); !strings.Contains(body, metric) {
			t.Errorf("no %s in the metrics", metric)
		}
	}
	p.signals <- syscall.SIGTERM
	if c := p.exit(); c != 0 {
		t.Errorf("exit code %d", c)
	}
	if strings.Contains(p.stderr.String(), testKey) || strings.Contains(p.stderr.String(), one) {
		t.Error("a secret is in the log")
	}

	again := serveTest(t, "--config", filepath.Join("..", "..", "examples", "quickstart.toml"), "--data-dir", dir)
	if code, body := again.chat(one); code != 429 {
		t.Errorf("a restart freed the window: %d %s", code, body)
	}
}

func TestDevServesWithTheKeyItPrints(t *testing.T) {
	t.Parallel()
	p := launch(t, "--dev")
	p.url = "http://" + p.eventually(regexp.MustCompile(`msg=serving http=(\S+)`))
	key := regexp.MustCompile(`master key: (\S+)`).FindStringSubmatch(p.stdout.String())
	if key == nil || strings.Count(p.stdout.String(), "master key:") != 1 {
		t.Fatalf("printed %s", p.stdout.String())
	}
	p.key = key[1]
	p.poll("readiness", func() bool { return p.status("/health/readiness") == http.StatusOK })
	if code, body := p.chat(p.newKey()); code != 200 {
		t.Errorf("%d %s", code, body)
	}
	if strings.Contains(p.stderr.String(), p.key) {
		t.Error("the master key is in the log")
	}
}

func TestAStoppingNodeFinishesWhatRuns(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	args := []string{"--data-dir", dir, "--config", configFile(t, "10s", "mock_latency = \"1500ms\"\ntpm = 1000")}
	p := serveTest(t, args...)
	key := p.newKey()
	answer := make(chan string, 1)
	go func() {
		code, body := p.chat(key)
		answer <- fmt.Sprint(code, body)
	}()
	p.poll("a request in flight", func() bool {
		_, body := p.call("GET", "/metrics", testKey, "")
		return strings.Contains(body, `sluice_inflight{model="my-fake-model"} 1`)
	})
	p.signals <- syscall.SIGTERM
	p.poll("readiness to turn false", func() bool { return p.status("/health/readiness") == http.StatusServiceUnavailable })
	if code := p.status("/health/liveness"); code != 200 {
		t.Errorf("a stopping node is not alive: %d", code)
	}
	if got := <-answer; !strings.HasPrefix(got, "200") {
		t.Errorf("the request that ran got %s", got)
	}
	if c := p.exit(); c != 0 {
		t.Errorf("exit code %d", c)
	}
	if code := p.status("/health/liveness"); code != 0 {
		t.Errorf("the port still answers: %d", code)
	}
	again := serveTest(t, args...)
	if _, body := again.call("GET", "/limits?model=my-fake-model", testKey, ""); !strings.Contains(body, `"tpm":{"limit":1000,"used":30}`) {
		t.Errorf("the usage of the last request is lost: %s", body)
	}
}

func TestRequestsAreBrokenOffWhenTheDrainTimeIsOver(t *testing.T) {
	t.Parallel()
	p := serveTest(t, "--data-dir", t.TempDir(), "--config", configFile(t, "100ms", "mock_latency = \"1h\""))
	key := p.newKey()
	done := make(chan struct{})
	go func() {
		defer close(done)
		if code, body := p.chat(key); code == 200 {
			t.Errorf("an answer came: %s", body)
		}
	}()
	p.poll("a request in flight", func() bool {
		_, body := p.call("GET", "/metrics", testKey, "")
		return strings.Contains(body, `sluice_inflight{model="my-fake-model"} 1`)
	})
	start := time.Now()
	p.signals <- syscall.SIGTERM
	if c := p.exit(); c != 0 {
		t.Errorf("exit code %d", c)
	}
	if took := time.Since(start); took > 8*time.Second {
		t.Errorf("the stop took %v", took)
	}
	<-done
}

func TestASecondSignalEndsAtOnce(t *testing.T) {
	t.Parallel()
	// In memory: the node that was cut off goes on stopping after the test.
	p := serveTest(t, "--dev", "--config", configFile(t, "2s", "mock_latency = \"1h\""))
	key := p.newKey()
	go p.chat(key)
	p.poll("a request in flight", func() bool {
		_, body := p.call("GET", "/metrics", testKey, "")
		return strings.Contains(body, `sluice_inflight{model="my-fake-model"} 1`)
	})
	p.signals <- syscall.SIGINT
	p.signals <- syscall.SIGINT
	start := time.Now()
	if c := p.exit(); c != 1 || !strings.Contains(p.stderr.String(), "stopped at once by a second signal") {
		t.Errorf("exit code %d", c)
	}
	if took := time.Since(start); took > time.Second {
		t.Errorf("that took %v", took)
	}
	p.poll("the rest of the node to end", func() bool { return strings.Contains(p.stderr.String(), "broken off") })
}

func TestASecondProcessOnOneDirectoryIsRefused(t *testing.T) {
	t.Parallel()
	args := []string{"--data-dir", t.TempDir(), "--config", configFile(t, "1s", "")}
	serveTest(t, args...)
	start := time.Now()
	second := launch(t, args...)
	if c := second.exit(); c != 1 {
		t.Errorf("exit code %d", c)
	}
	if out := second.stderr.String(); strings.Count(out, "\n") != 1 || !strings.Contains(out, "in use by another process") {
		t.Errorf("it said %s", out)
	}
	if took := time.Since(start); took > 3*time.Second {
		t.Errorf("that took %v", took)
	}
}
