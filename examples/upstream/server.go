package upstream

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"
)

// Options configure a Server. The zero value listens on a free loopback port
// and keeps the last 10 000 requests.
type Options struct {
	Addr string // host:port; "" means 127.0.0.1:0
	// Keep is the number of requests that are kept for reading; 0 means
	// 10 000, negative none (they are still counted).
	Keep int
	// IdleTimeout closes connections that were unused for so long; 0 never.
	IdleTimeout time.Duration
	Models      []string // what GET /models lists
}

const (
	defaultKeep = 10_000
	maxBody     = 64 << 20
)

// Server is a running mock provider. Every method may be called by any goroutine.
type Server struct {
	scripts scripts
	journal journal
	stored  stored
	models  []string
	addr    net.Addr
	http    *http.Server
	closing chan struct{}
	once    sync.Once
	served  sync.WaitGroup
}

// Start listens and serves until Close.
func Start(o Options) (*Server, error) {
	if o.Addr == "" {
		o.Addr = "127.0.0.1:0"
	}
	switch {
	case o.Keep == 0:
		o.Keep = defaultKeep
	case o.Keep < 0:
		o.Keep = 0
	}
	l, err := net.Listen("tcp", o.Addr)
	if err != nil {
		return nil, fmt.Errorf("listen for the mock upstream: %w", err)
	}
	s := &Server{
		journal: journal{keep: o.Keep},
		models:  o.Models,
		addr:    l.Addr(),
		closing: make(chan struct{}),
	}
	s.http = &http.Server{
		Handler:     s.routes(),
		IdleTimeout: o.IdleTimeout,
		ConnContext: func(ctx context.Context, c net.Conn) context.Context {
			return context.WithValue(ctx, connKey{}, c)
		},
	}
	s.served.Go(func() { _ = s.http.Serve(&listener{Listener: l, tee: o.Keep > 0}) })
	return s, nil
}

type connKey struct{}

// connOf returns the connection of a request; every one comes through listener.
func connOf(r *http.Request) *conn { return r.Context().Value(connKey{}).(*conn) }

// URL returns the base address without a path, such as http://127.0.0.1:4711.
func (s *Server) URL() string { return "http://" + s.addr.String() }

// Play appends steps to the script of the requests that match.
func (s *Server) Play(m Match, steps ...Step) { s.scripts.add(m, steps) }

// Forget drops what is left of the script that was played for exactly m.
func (s *Server) Forget(m Match) { s.scripts.remove(m) }

// Requests returns what arrived, oldest first; model "" means all.
func (s *Server) Requests(model string) []Request { return s.journal.requests(model) }

// Count returns how many requests for the model were executed since the start
// or the last Reset; model "" means all.
func (s *Server) Count(model string) int64 { return s.journal.count(model) }

// Reset forgets scripts, requests and counts.
func (s *Server) Reset() {
	s.scripts.clear()
	s.journal.clear()
	s.stored.clear()
}

// Close stops listening, ends every connection and every scripted wait.
func (s *Server) Close() error {
	var err error
	s.once.Do(func() {
		close(s.closing)
		err = s.http.Close()
		s.served.Wait()
	})
	return err
}

func (s *Server) routes() http.Handler {
	mux := http.NewServeMux()
	s.control(mux)
	for _, base := range []string{"/models", "/v1/models"} {
		mux.HandleFunc("GET "+base, s.listModels)
		mux.HandleFunc("GET "+base+"/{model...}", s.showModel)
	}
	mux.HandleFunc("/", s.complete)
	return mux
}

// route returns which default answer a path gets; ok is false for a path that
// no provider has.
func route(path string) (name string, ok bool) {
	if strings.Contains(path, "/responses/") {
		return "response", true
	}
	for _, r := range []struct{ suffix, name string }{
		{"/chat/completions", "chat"},
		{"/completions", "completions"},
		{"/embeddings", "embeddings"},
		{"/responses", "responses"},
		{"/messages", "messages"},
		{"/messages/count_tokens", "count_tokens"},
	} {
		if strings.HasSuffix(path, r.suffix) {
			return r.name, true
		}
	}
	return "", false
}

// complete records a request and plays its script. A path without a default
// answer is served if a script names it.
func (s *Server) complete(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(io.LimitReader(r.Body, maxBody))
	if err != nil {
		return // the peer gave up in mid-request: nothing was executed
	}
	var q asked
	_ = json.Unmarshal(body, &q) // a body that cannot be read has no model and gets the plain answer
	if q.Model == "" {
		q.Model = pathModel(r.URL.Path)
	}
	rec := s.note(r, body, q)
	step, scripted := s.scripts.next(rec.Model, r.URL.Path)
	name, known := route(r.URL.Path)
	if !known && !scripted {
		step = Step{Status: http.StatusNotFound, Body: errorBody(http.StatusNotFound, "the mock upstream has no route "+r.URL.Path)}
	}
	switch {
	case scripted || !known:
	case name == "response":
		step = s.stored.answer(r.Method, r.URL.Path)
	case r.Method != http.MethodPost:
		step = Step{Status: http.StatusMethodNotAllowed}
	}
	a := compose(step, name, q, rec.Seq)
	if name == "responses" && a.status == http.StatusOK {
		s.stored.keep(finished(step, q, rec.Seq))
	}
	defer func() { s.journal.done(rec, a.status, time.Now()) }()
	s.send(r.Context(), w, a, step)
}

func (s *Server) note(r *http.Request, body []byte, q asked) *record {
	c := connOf(r)
	rec := &record{conn: c, Request: Request{
		Conn: c.id, At: time.Now(), Method: r.Method, Path: r.URL.Path, Query: r.URL.RawQuery,
		Model: q.Model, Stream: q.Stream, Credential: credential(r.Header), Header: r.Header, Body: body, Raw: c.take(),
	}}
	s.journal.add(rec)
	return rec
}

// pathModel finds the model of the Azure form /openai/deployments/MODEL/….
func pathModel(path string) string {
	_, rest, ok := strings.Cut(path, "/deployments/")
	if !ok {
		return ""
	}
	model, _, _ := strings.Cut(rest, "/")
	return model
}

func credential(h http.Header) string {
	if token, ok := strings.CutPrefix(h.Get("Authorization"), "Bearer "); ok {
		return token
	}
	for _, name := range []string{"Api-Key", "X-Api-Key"} {
		if v := h.Get(name); v != "" {
			return v
		}
	}
	return ""
}

// Run serves until ctx is done; the body of the command mockupstream.
func Run(ctx context.Context, o Options, announce func(url string)) error {
	s, err := Start(o)
	if err != nil {
		return err
	}
	announce(s.URL())
	<-ctx.Done()
	return s.Close()
}
