package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"sluice/examples/harness"
	"sluice/examples/upstream"
)

// The models of every rig, by the protocol of their deployment.
const (
	gptModel    = "gpt-mock"
	claudeModel = "claude-mock"
)

// rig is one provider and one sluice before it. Cases are played on it one
// after the other.
type rig struct {
	up      *upstream.Server
	cluster *harness.Cluster
	node    *harness.Node
	keys    map[string]string // by Case.Key
}

const config = `
[gateway]
master_key   = "os.environ/SLUICE_MASTER_KEY"

[cluster]
secret = "os.environ/SLUICE_CLUSTER_SECRET"

[upstream]
connect_timeout    = "2s"
first_byte_timeout = "%[1]s"
idle_timeout       = "%[2]s"

[[models]]
name     = "gpt-mock"
provider = "openai_compatible"
api_base = "%[3]s/v1"
api_key  = "os.environ/PROVIDER_KEY"

[[models]]
name     = "claude-mock"
provider = "%[4]s"
api_base = "%[3]s%[5]s"
api_key  = "os.environ/PROVIDER_KEY"
`

// newRig starts a provider and a sluice of this binary.
func newRig(ctx context.Context, binary string, ports [2]int) (*rig, error) {
	up, err := upstream.Start(upstream.Options{Models: []string{claudeModel, gptModel}})
	if err != nil {
		return nil, err
	}
	provider, base := "anthropic", ""
	if !abilities[messagesNative] && !abilities[chatToMessages] {
		provider, base = "openai_compatible", "/v1" // there is no other yet
	}
	cluster, err := harness.Start(ctx, harness.Options{
		Binary: binary, Ports: ports, Env: []string{"PROVIDER_KEY=" + providerKey},
		Config: fmt.Sprintf(config, firstByteTimeout, idleTimeout, up.URL(), provider, base),
	})
	if err != nil {
		return nil, errors.Join(err, up.Close())
	}
	r := &rig{up: up, cluster: cluster, node: cluster.Nodes[0]}
	if err := r.makeKeys(ctx); err != nil {
		return nil, errors.Join(err, r.close())
	}
	return r, nil
}

const providerKey = "sk-provider-secret-0123456789"

func (r *rig) makeKeys(ctx context.Context) error {
	one := int64(1)
	good, err := r.node.Admin().CreateKey(ctx, harness.KeySpec{})
	if err != nil {
		return err
	}
	limited, err := r.node.Admin().CreateKey(ctx, harness.KeySpec{RPM: &one})
	if err != nil {
		return err
	}
	r.keys = map[string]string{"": good.Secret, "limited": limited.Secret, "unknown": "sk-nobody-knows-this-one"}
	reply, err := r.node.As(limited.Secret).Chat(ctx, gptModel)
	if err != nil || reply.Status != 200 {
		return fmt.Errorf("use up a limit: %v, %w", reply, err)
	}
	return r.settled(ctx)
}

func (r *rig) close() error { return errors.Join(r.cluster.Close(), r.up.Close()) }

// settled waits until sluice has no request in flight.
func (r *rig) settled(ctx context.Context) error {
	var last error
	for deadline := time.Now().Add(3 * time.Second); time.Now().Before(deadline); time.Sleep(5 * time.Millisecond) {
		l, err := r.ledger(ctx)
		if err != nil {
			return err
		}
		if l.inflight == 0 {
			return nil
		}
		last = fmt.Errorf("%d requests are still in flight", l.inflight)
	}
	return last
}
