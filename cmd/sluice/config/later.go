package config

// later lists what the documentation names and this version does not do yet.
// Accepting it silently would weaken what the writer of the file relies on. An
// entry is a key's path without indexes, or path=value; whoever builds the
// feature deletes its lines.
var later = map[string]bool{
	"upstream.max_attempts":              true,
	"upstream.base_delay":                true,
	"upstream.max_delay":                 true,
	"upstream.jitter":                    true,
	"upstream.max_retry_after":           true,
	"upstream.min_delay":                 true,
	"upstream.retry_budget":              true,
	"upstream.margin":                    true,
	"upstream.precise_count_threshold":   true,
	"upstream.queue":                     true,
	"upstream.groups":                    true,
	"models[].quota_group":               true,
	"models[].order":                     true,
	"models[].deployments[].quota_group": true,
	"models[].deployments[].order":       true,
}
