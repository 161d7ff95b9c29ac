// Package config reads the TOML file of a node.
//
// It owns the names, types, defaults and ranges of every setting, the
// references to environment variables, and the wording of what is wrong: all
// problems of a file at once, each as "file:line: key: problem; remedy". It
// must not know flags, sockets or the cluster; what the settings mean is
// decided by those who receive them.
//
// A file has two halves. Node-local settings ([gateway], [cluster], [log])
// become Settings. Cluster-wide ones ([[models]], [aliases],
// [priority_reservation*], [limits], [upstream], gateway.window) become an
// fsm.Config, which is replicated and holds no secret, only references.
package config
