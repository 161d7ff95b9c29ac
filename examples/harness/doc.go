// Package harness starts real sluice processes on this machine and talks to
// them as users do.
//
// It owns processes, their ports, data directories and captured output, and a
// small typed client of the HTTP API. It must not know the product from the
// inside: it imports no package of sluice, only runs the binary. Tests, the
// demo and the benchmarks use it, so nothing here needs a *testing.T.
//
//	c, err := harness.Start(ctx, harness.Options{Nodes: 3, Config: toml})
//	defer c.Close()
//	key, err := c.Nodes[0].Admin().CreateKey(ctx, harness.KeySpec{Priority: "prod"})
//	reply, err := c.Nodes[1].As(key.Secret).Chat(ctx, "my-model")
//
// Everything Start made is gone after Close: processes, ports and files.
package harness
