// Command conformance plays one table of cases with the client libraries that
// people have, straight against the mock provider and through a real sluice,
// and prints who could tell the difference.
//
//	cd examples/clients && go run ./conformance
//	go run ./conformance -clients python,node -run 'messages|tools' -v
//
// A case is written once: what the provider does (upstream.Steps), what the
// client is told to do (a Call), what it must be given (a Result), and what the
// provider must have executed and sluice counted. A client is a driver that
// carries out Calls with one language's libraries and tells what they returned;
// it decides nothing. Drivers are in this package for Go (and a strict reader of
// raw bytes, without any library), and beside it for Python and Node, which
// speak a line of JSON for each call.
//
// Every case is first played straight against the provider, which proves case,
// provider and driver right without sluice; gatewayOnly cases have no such run.
package main
