package main

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"strings"
	"time"
)

// bareProxyRole as the first argument turns this program into the proxy that
// sluice is compared to: Go's own, with nothing else, in a process of its own
// as sluice is.
const bareProxyRole = "bare-proxy"

// serveBareProxy serves until it is killed; its address is the first line of
// its output.
func serveBareProxy(args []string) error {
	if len(args) != 1 {
		return fmt.Errorf("usage: %s UPSTREAM-URL", bareProxyRole)
	}
	upstream, err := url.Parse(args[0])
	if err != nil {
		return fmt.Errorf("read the upstream's address: %w", err)
	}
	proxy := &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(upstream) },
		// What a gateway needs: enough idle connections, no compression of its own.
		Transport: &http.Transport{
			DialContext:         (&net.Dialer{Timeout: 5 * time.Second}).DialContext,
			MaxIdleConnsPerHost: 512,
			MaxIdleConns:        0,
			IdleConnTimeout:     90 * time.Second,
			DisableCompression:  true,
		},
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return fmt.Errorf("listen: %w", err)
	}
	fmt.Println(l.Addr())
	return http.Serve(l, proxy)
}

// startBareProxy runs it as a child; stop ends it.
func startBareProxy(ctx context.Context, upstreamURL string) (addr string, pid int, stop func(), err error) {
	self, err := os.Executable()
	if err != nil {
		return "", 0, nil, fmt.Errorf("find this program: %w", err)
	}
	ctx, cancel := context.WithCancel(ctx)
	cmd := exec.CommandContext(ctx, self, bareProxyRole, upstreamURL)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		cancel()
		return "", 0, nil, fmt.Errorf("start the bare proxy: %w", err)
	}
	if err := cmd.Start(); err != nil {
		cancel()
		return "", 0, nil, fmt.Errorf("start the bare proxy: %w", err)
	}
	stop = func() {
		cancel()
		_ = cmd.Wait() // it was killed: its error says just that
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		stop()
		return "", 0, nil, fmt.Errorf("start the bare proxy: read its address: %w", err)
	}
	return strings.TrimSpace(line), cmd.Process.Pid, stop, nil
}
