// Command sluice is the gateway: one binary that serves, and that manages a
// running cluster over HTTP.
//
// It owns flags, the configuration file, signals, the order in which the parts
// start and stop, and the one HTTP port. It must not know what a key, a limit
// or a log entry means: the packages that it wires do.
package main
