package proxy

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"sluice/fsm"
	"sluice/limiter"
)

// Admitter says who may go upstream. It is called by any goroutine.
type Admitter interface {
	// Admit blocks until the ticket is admitted or not. The error is a
	// *limiter.Refusal, limiter.ErrNoQuorum, limiter.ErrClosed or ctx's. After
	// an admission the caller settles the Receipt exactly once.
	Admit(ctx context.Context, t limiter.Ticket) (Receipt, error)
}

// Receipt is one admission.
type Receipt interface {
	// Settle records what was consumed and gives back what was held. It never blocks.
	Settle(limiter.Usage)
	// Decision is what the ledger said; nil where nobody could ask it.
	Decision() *limiter.Decision
	// Mode is how it was admitted, for x-sluice-limits.
	Mode() string
}

var _ Receipt = (*limiter.Receipt)(nil)

// GateAdmitter makes an Admitter of a Gate.
func GateAdmitter(g *limiter.Gate) Admitter { return gateAdmitter{g} }

type gateAdmitter struct{ gate *limiter.Gate }

func (a gateAdmitter) Admit(ctx context.Context, t limiter.Ticket) (Receipt, error) {
	r, err := a.gate.Admit(ctx, t)
	if err != nil {
		return nil, err
	}
	return r, nil
}

// Options configure a Proxy. View, Gate, MasterKey and NodeID are required.
type Options struct {
	View func() *fsm.View // the newest view; one atomic load
	Gate Admitter
	// Refresh asks the leader which writes are acknowledged and waits until they
	// are applied here. It is called when a key is unknown, one call at a time.
	// nil: an unknown key is refused at once.
	Refresh       func(ctx context.Context) error
	MasterKey     string
	NodeID        string                           // x-sluice-node
	Mode          func() string                    // x-sluice-limits; nil: "exact"
	MaxBody       int64                            // bytes of a request's body, on the wire and unpacked; default 20 MiB
	MaxBodyMemory int64                            // bytes of all bodies together that are being read or sent; default 1 GiB
	MaxEvent      int                              // bytes of one event of an upstream's stream; default 64 MiB
	WriteTimeout  time.Duration                    // for one write to a client; default 30 s
	Secret        func(ref string) (string, error) // resolves a deployment's api_key; nil: references cannot be used
	Logger        *slog.Logger                     // nil: nothing is logged
	Registerer    prometheus.Registerer            // nil: metrics are counted and shown nowhere
	Now           func() time.Time                 // default time.Now
	Rand          func() uint64                    // uniform; for the choice of a deployment, the waits between attempts and call ids; default math/rand/v2
}

const (
	defaultMaxBody      = 20 << 20
	defaultBodyMemory   = 1 << 30
	defaultMaxEvent     = 64 << 20
	defaultWriteTimeout = 30 * time.Second
)

func (o *Options) validate() error {
	var errs []error
	need := func(ok bool, name string) {
		if !ok {
			errs = append(errs, fmt.Errorf("proxy: Options.%s is missing or out of range", name))
		}
	}
	need(o.View != nil, "View")
	need(o.Gate != nil, "Gate")
	need(o.MasterKey != "", "MasterKey")
	need(o.NodeID != "", "NodeID")
	need(o.MaxBody >= 0, "MaxBody")
	need(o.MaxBodyMemory >= 0, "MaxBodyMemory")
	need(o.MaxEvent >= 0, "MaxEvent")
	need(o.WriteTimeout >= 0, "WriteTimeout")
	return errors.Join(errs...)
}

func (o *Options) setDefaults() {
	if o.Mode == nil {
		o.Mode = func() string { return "exact" }
	}
	if o.MaxBody == 0 {
		o.MaxBody = defaultMaxBody
	}
	if o.MaxBodyMemory == 0 {
		o.MaxBodyMemory = defaultBodyMemory
	}
	if o.MaxEvent == 0 {
		o.MaxEvent = defaultMaxEvent
	}
	if o.WriteTimeout == 0 {
		o.WriteTimeout = defaultWriteTimeout
	}
	if o.Secret == nil {
		o.Secret = func(string) (string, error) { return "", errors.New("no source of secrets") }
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Rand == nil {
		o.Rand = rand.Uint64
	}
}

// Proxy is the data plane's handler.
type Proxy struct {
	view    func() *fsm.View
	gate    Admitter
	refresh *refresher // nil: unknown keys are not asked about
	mode    func() string
	secret  func(string) (string, error)
	now     func() time.Time
	rand    func() uint64
	logger  *slog.Logger
	metrics *metrics

	master       digest
	masterShaped bool // the master key starts with sk-
	maxBody      int64
	maxEvent     int
	writeTimeout time.Duration
	nodeHeader   []string

	learned   learned  // how long answers are, where tokens are reserved
	origins   origins  // which deployment made a response
	searches  searches // for responses whose origin is not known
	buffers   buffers
	memory    memory
	table     atomic.Pointer[table]
	tableMu   sync.Mutex   // held while a table is built
	recalled  recollection // what a new table takes over
	providers map[string]provider
	transport *http.Transport
	fresh     *http.Transport // one connection per call
}

var _ http.Handler = (*Proxy)(nil)

// New returns a Proxy. The error names every option that is missing.
func New(o Options) (*Proxy, error) {
	if err := o.validate(); err != nil {
		return nil, err
	}
	o.setDefaults()
	m, err := newMetrics(o.Registerer)
	if err != nil {
		return nil, err
	}
	p := &Proxy{
		view: o.View, gate: o.Gate, mode: o.Mode, secret: o.Secret, now: o.Now, rand: o.Rand,
		logger: o.Logger.With("component", "proxy"), metrics: m,
		master: hash(o.MasterKey), masterShaped: len(o.MasterKey) > 3 && o.MasterKey[:3] == "sk-",
		maxBody: o.MaxBody, maxEvent: o.MaxEvent, writeTimeout: o.WriteTimeout,
		nodeHeader: []string{o.NodeID}, memory: memory{limit: o.MaxBodyMemory},
	}
	if o.Refresh != nil {
		p.refresh = newRefresher(o.Refresh)
	}
	p.recalled = newRecollection()
	p.transport = newTransport(func() time.Duration { return p.view().Config().Upstream.ConnectTimeout })
	p.fresh = p.transport.Clone()
	p.fresh.DisableKeepAlives = true
	openai := &wire{transport: p.transport, fresh: p.fresh, dialect: openAI{}}
	p.providers = map[string]provider{
		fsm.ProviderMock:       mock{},
		fsm.ProviderOpenAI:     openai,
		fsm.ProviderCompatible: openai,
		fsm.ProviderAnthropic:  &wire{transport: p.transport, fresh: p.fresh, dialect: anthropic{}},
		fsm.ProviderAzure:      &wire{transport: p.transport, fresh: p.fresh, dialect: azure{}},
	}
	if o.Registerer != nil {
		if err := o.Registerer.Register(newCooldowns(p)); err != nil {
			return nil, fmt.Errorf("register a metric of the proxy: %w", err)
		}
	}
	return p, nil
}

// Close closes idle connections to upstreams. Requests that still run go on.
func (p *Proxy) Close() { p.transport.CloseIdleConnections() }

// byteCount writes n as configuration does.
func byteCount(n int64) string {
	switch {
	case n > 0 && n%(1<<20) == 0:
		return strconv.FormatInt(n>>20, 10) + "MiB"
	case n > 0 && n%(1<<10) == 0:
		return strconv.FormatInt(n>>10, 10) + "KiB"
	}
	return strconv.FormatInt(n, 10) + " bytes"
}
