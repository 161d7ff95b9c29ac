package config

// later lists what the documentation names and this version does not do yet.
// Accepting it silently would weaken what the writer of the file relies on. An
// entry is a key's path without indexes, or path=value; whoever builds the
// feature deletes its lines.
var later = map[string]bool{
	"upstream.margin":                  true,
	"upstream.precise_count_threshold": true,
	"upstream.queue":                   true,
	"upstream.groups":                  true,
}
