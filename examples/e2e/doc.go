// Package e2e holds the tests that run real sluice processes and talk to them
// over HTTP, with a mock provider behind them that counts what was executed.
//
// What they claim is claimed from outside: no package of the product is
// imported, and the provider's count, not the gateway's own, decides whether a
// limit was kept. Set SLUICE_BIN to test a binary that is already built.
package e2e
