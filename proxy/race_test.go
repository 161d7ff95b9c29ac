//go:build race

package proxy

// raceFactor is how much more memory the race detector makes everything take.
const raceFactor = 2
