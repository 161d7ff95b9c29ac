package admincli

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"sluice/admin"
)

// limitsOptions are the flags of `limits`.
type limitsOptions struct {
	watch    bool
	interval time.Duration
}

func (o *limitsOptions) AddFlags(f *pflag.FlagSet) {
	f.BoolVarP(&o.watch, "watch", "w", false, "show it again and again until interrupted")
	f.DurationVar(&o.interval, "interval", time.Second, "time between two looks with --watch, at least 100ms")
}

func newLimitsCommand(g *globalOptions) *cobra.Command {
	var o limitsOptions
	cmd := &cobra.Command{Use: "limits [MODEL]", Short: "Show the running windows: used, saturation, pools", Args: atMost(1),
		Long: `Show the running windows: used, saturation, pools.

RPM and TPM are used/limit of the running window. A saturation below the threshold
is generous: only the model's own limit refuses. From the threshold on it is strict:
every priority is also held to its pool.`}
	o.AddFlags(cmd.Flags())
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		model := ""
		if len(args) > 0 {
			model = args[0]
		}
		call := func(ctx context.Context, c *admin.Client) (*admin.LimitsAnswer, error) { return c.Limits(ctx, model) }
		if !o.watch {
			return request(g, cmd, call, func(p *printer, l *admin.LimitsAnswer) { showLimits(p, l, g.env.Now()) })
		}
		if o.interval < 100*time.Millisecond {
			return usagef("--interval must be at least 100ms")
		}
		return watchLimits(g, cmd, o.interval, call)
	}
	return cmd
}

// watchLimits shows the limits until the command is interrupted, which is its
// normal end. Once it has shown something a failure is only mentioned, because
// the cluster may be about to elect a leader.
func watchLimits(g *globalOptions, cmd *cobra.Command, interval time.Duration, call func(context.Context, *admin.Client) (*admin.LimitsAnswer, error)) error {
	c, err := g.client()
	if err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(cmd.Context(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	cmd.SetContext(ctx)
	out := cmd.OutOrStdout()
	tick := time.NewTicker(interval)
	defer tick.Stop()
	for shown := 0; ; shown++ {
		answer, err := bounded(g, cmd, c, call)
		switch {
		case cmd.Context().Err() != nil:
			return nil
		case err != nil && shown == 0:
			return err
		case err != nil:
			_, err = fmt.Fprintln(cmd.ErrOrStderr(), err)
		default:
			err = g.printFrame(out, answer, shown)
		}
		if err != nil {
			return fmt.Errorf("write answer: %w", err)
		}
		select {
		case <-tick.C:
		case <-cmd.Context().Done():
			return nil
		}
	}
}

// printFrame shows one look: over the last one on a terminal, below it
// elsewhere, one line of JSON for scripts.
func (o *globalOptions) printFrame(out io.Writer, l *admin.LimitsAnswer, shown int) error {
	if o.output == "json" {
		return json.NewEncoder(out).Encode(l)
	}
	before := ""
	switch {
	case isTerminal(out):
		before = "\x1b[H\x1b[2J"
	case shown > 0:
		before = "\n"
	}
	if _, err := io.WriteString(out, before); err != nil {
		return err
	}
	return o.print(out, l, func(p *printer) { showLimits(p, l, o.env.Now()) })
}

func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	if !ok {
		return false
	}
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}

func showLimits(p *printer, l *admin.LimitsAnswer, now time.Time) {
	p.row("MODEL", "PRIORITY", "SHARE", "RPM", "TPM", "SATURATION", "THRESHOLD", "MODE", "RESETS IN")
	for _, m := range l.Models {
		p.row(m.Model, "(all)", "", gauge(m.RPM), gauge(m.TPM), percent(m.Saturation), percent(m.Threshold), m.Mode, resetsIn(m.ResetsAt, now))
		for _, pool := range m.Pools {
			name := "(others)"
			if pool.Priority != nil {
				name = *pool.Priority
			}
			p.row(m.Model, name, percent(pool.Share), gauge(pool.RPM), gauge(pool.TPM), "", "", "", "")
		}
	}
	p.blank()
	p.row("Limits are held: " + l.Limits)
}

// resetsIn shows what is left of a window, by this host's clock.
func resetsIn(at *string, now time.Time) string {
	if at == nil {
		return "no window"
	}
	t, err := time.Parse(time.RFC3339Nano, *at)
	if err != nil {
		return *at
	}
	return max(t.Sub(now).Round(time.Second), 0).String()
}
