package admin

import (
	"context"
	"net/http"
	"slices"
	"strings"
)

// access says who may call a route.
type access int

const (
	accessMaster  access = iota // the master key only
	accessSelf                  // a virtual key too; the handler shows it only its own
	accessMetrics               // the master key, or anybody if metrics are open
	accessOpen                  // anybody
)

type route struct {
	method string
	path   string // as logs and messages show it, {key} for a variable part
	access access
	team   bool // errors carry `detail` too
	handle func(a *Admin, ctx context.Context, c *call) (any, error)
	raw    func(a *Admin, w http.ResponseWriter, r *http.Request) error // instead of handle
}

// regenerateByPath is the one path with a variable part.
const regenerateByPath = "/key/{key}/regenerate"

// table holds the routes by path and method. It is built once and only read.
var table = buildTable([]route{
	{method: "POST", path: "/key/generate", handle: (*Admin).generateKey},
	{method: "POST", path: "/key/update", handle: (*Admin).updateKey},
	{method: "POST", path: "/key/delete", handle: (*Admin).deleteKeys},
	{method: "POST", path: "/key/block", handle: (*Admin).blockKey},
	{method: "POST", path: "/key/unblock", handle: (*Admin).unblockKey},
	{method: "POST", path: "/key/regenerate", handle: (*Admin).regenerateKey},
	{method: "POST", path: regenerateByPath, handle: (*Admin).regenerateKey},
	{method: "GET", path: "/key/info", access: accessSelf, handle: (*Admin).keyInfo},
	{method: "GET", path: "/key/list", handle: (*Admin).listKeys},

	{method: "POST", path: "/team/new", team: true, handle: (*Admin).newTeam},
	{method: "POST", path: "/team/update", team: true, handle: (*Admin).updateTeam},
	{method: "POST", path: "/team/delete", team: true, handle: (*Admin).deleteTeams},
	{method: "POST", path: "/team/block", team: true, handle: (*Admin).blockTeam},
	{method: "POST", path: "/team/unblock", team: true, handle: (*Admin).unblockTeam},
	{method: "GET", path: "/team/info", access: accessSelf, team: true, handle: (*Admin).teamInfo},
	{method: "GET", path: "/team/list", team: true, handle: (*Admin).listTeams},

	{method: "GET", path: "/priority/list", handle: (*Admin).listPriorities},
	{method: "POST", path: "/priority/set", handle: (*Admin).setPriority},
	{method: "POST", path: "/priority/unset", handle: (*Admin).unsetPriority},

	{method: "GET", path: "/config", handle: (*Admin).showConfig},
	{method: "POST", path: "/config", handle: (*Admin).applyConfig},
	{method: "GET", path: "/config/history", handle: (*Admin).configHistory},
	{method: "POST", path: "/config/rollback", handle: (*Admin).rollbackConfig},

	{method: "GET", path: "/model/info", handle: (*Admin).modelInfo},
	{method: "GET", path: "/v1/model/info", handle: (*Admin).modelInfo},
	{method: "GET", path: "/limits", handle: (*Admin).showLimits},
	{method: "GET", path: "/limits/explain", handle: (*Admin).explainLimits},
	{method: "GET", path: "/cluster/status", handle: (*Admin).clusterStatus},
	{method: "POST", path: "/cluster/remove", handle: (*Admin).removeNode},
	{method: "POST", path: "/cluster/transfer", handle: (*Admin).transferLeadership},
	{method: "GET", path: "/cluster/backup", raw: (*Admin).backup},
	{method: "POST", path: "/cluster/restore", raw: (*Admin).restore},

	{method: "GET", path: "/health/liveliness", access: accessOpen, raw: (*Admin).alive},
	{method: "GET", path: "/health/liveness", access: accessOpen, raw: (*Admin).alive},
	{method: "GET", path: "/health/readiness", access: accessOpen, raw: (*Admin).readiness},
	{method: "GET", path: "/metrics", access: accessMetrics, raw: (*Admin).metrics},
})

func buildTable(routes []route) map[string]map[string]*route {
	t := make(map[string]map[string]*route)
	for i := range routes {
		r := &routes[i]
		if t[r.path] == nil {
			t[r.path] = make(map[string]*route)
		}
		t[r.path][r.method] = r
	}
	return t
}

// lookup returns the routes of a path by method, nil if it is unknown, and its
// variable part.
func lookup(path string) (methods map[string]*route, arg string) {
	if rest, ok := strings.CutPrefix(path, "/key/"); ok {
		if key, ok := strings.CutSuffix(rest, "/regenerate"); ok && key != "" && !strings.Contains(key, "/") {
			return table[regenerateByPath], key
		}
	}
	if strings.Contains(path, "{") {
		return nil, ""
	}
	return table[path], ""
}

// Owns reports whether a cleaned path is one that Admin answers, whatever the method.
func Owns(path string) bool {
	methods, _ := lookup(path)
	return methods != nil
}

// choose picks the route of a method; HEAD is served as GET.
func choose(methods map[string]*route, method string) (*route, *Error) {
	if methods == nil {
		return nil, &Error{Status: http.StatusNotFound, Message: "Not Found", Detail: "Not Found"}
	}
	if method == http.MethodHead {
		method = http.MethodGet
	}
	if rt := methods[method]; rt != nil {
		return rt, nil
	}
	allowed := make([]string, 0, len(methods)+1)
	for m := range methods {
		allowed = append(allowed, m)
		if m == http.MethodGet {
			allowed = append(allowed, http.MethodHead)
		}
	}
	slices.Sort(allowed)
	return nil, &Error{Status: http.StatusMethodNotAllowed, Message: "Method Not Allowed", Detail: "Method Not Allowed", Allow: strings.Join(allowed, ", ")}
}
