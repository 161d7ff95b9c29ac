// Package clients holds programs and tests that use sluice through the client
// libraries that people have. It is a module of its own, so that those
// libraries stay out of the product's dependencies.
//
//	cd examples/clients && go test ./...
//
// The command conformance in it plays one table of cases with the libraries of
// Go, Python and Node.
package clients
