// Command mockupstream runs the scriptable mock provider of package upstream,
// for trying a gateway by hand:
//
//	go run ./examples/mockupstream --listen 127.0.0.1:9000
//	curl -d '{"model":"m","steps":[{"status":503},{"delay_ms":2000}]}' localhost:9000/_script
//	curl localhost:9000/_log
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"sluice/examples/upstream"
)

func main() {
	listen := flag.String("listen", "127.0.0.1:9000", "`address` to serve on")
	names := flag.String("models", "", "comma-separated `names` that GET /models lists")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	o := upstream.Options{Addr: *listen}
	if *names != "" {
		o.Models = strings.Split(*names, ",")
	}
	err := upstream.Run(ctx, o, func(url string) {
		fmt.Printf("mock upstream on %s; script it with POST %s/_script, read GET %s/_log\n", url, url, url)
	})
	if err != nil {
		fmt.Fprintln(os.Stderr, "mockupstream:", err)
		os.Exit(1)
	}
}
