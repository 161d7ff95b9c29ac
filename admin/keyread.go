package admin

import (
	"cmp"
	"context"
	"net/http"
	"net/url"
	"slices"
	"strconv"

	"sluice/fsm"
)

// keyInfo answers GET /key/info: any key for the master key, its own for a
// virtual key.
func (a *Admin) keyInfo(_ context.Context, c *call) (any, error) {
	given := c.query.Get("key")
	if given == "" {
		if c.caller.Master {
			return nil, missing("query", "key")
		}
		given = c.caller.KeyID
	}
	id := keyID(given)
	if !c.caller.Master && id != c.caller.KeyID {
		return nil, &Error{Status: http.StatusForbidden, Message: "You are not allowed to access this key's info. Your role=internal_user"}
	}
	k, ok := a.o.State.View().Key(id)
	if !ok {
		return nil, notFound("key", "Key not found in database")
	}
	return KeyInfoAnswer{Key: k.ID, Info: keyInfo(k)}, nil
}

// listKeys answers GET /key/list, newest first unless sort_by and sort_order say otherwise.
func (a *Admin) listKeys(_ context.Context, c *call) (any, error) {
	if c.query.Get("status") != "" {
		return nil, badRequest("status", "status is not supported: deleted keys are not kept.")
	}
	page, size, err := pageOf(c.query)
	if err != nil {
		return nil, err
	}
	order, err := keyOrder(c.query)
	if err != nil {
		return nil, err
	}
	var found []*fsm.Key
	for k := range a.o.State.View().Keys {
		if keyMatches(k, c.query) {
			found = append(found, k)
		}
	}
	slices.SortFunc(found, order)
	total := len(found)
	pages := (total + size - 1) / size
	found = found[min((page-1)*size, total):min(page*size, total)]
	if full, _ := strconv.ParseBool(c.query.Get("return_full_object")); full {
		return keyList(found, keyRow, total, page, pages), nil
	}
	return keyList(found, func(k *fsm.Key) string { return k.ID }, total, page, pages), nil
}

func keyList[T string | KeyRow](keys []*fsm.Key, show func(*fsm.Key) T, total, page, pages int) KeyList[T] {
	l := KeyList[T]{Keys: make([]T, len(keys)), TotalCount: total, CurrentPage: page, TotalPages: pages}
	for i, k := range keys {
		l.Keys[i] = show(k)
	}
	return l
}

// maxPage bounds the page number so that page × size cannot overflow.
const maxPage = 1 << 31

func pageOf(q url.Values) (page, size int, err error) {
	if page, err = numberOf(q, "page", 1, maxPage); err != nil {
		return 0, 0, err
	}
	size, err = numberOf(q, "size", 10, 100)
	return page, size, err
}

func numberOf(q url.Values, name string, usual, most int) (int, error) {
	if !q.Has(name) {
		return usual, nil
	}
	n, err := strconv.Atoi(q.Get(name))
	switch {
	case err != nil:
		return 0, wrongType("int_parsing", "Input should be a valid integer", nil, "query", name)
	case n < 1:
		return 0, wrongType("greater_than_equal", "Input should be greater than or equal to 1", nil, "query", name)
	case n > most:
		return 0, wrongType("less_than_equal", "Input should be less than or equal to "+strconv.Itoa(most), nil, "query", name)
	}
	return n, nil
}

func keyMatches(k *fsm.Key, q url.Values) bool {
	x := extras(k.Extra)
	for name, have := range map[string]string{"team_id": k.TeamID, "user_id": k.UserID, "key_alias": k.Alias,
		"organization_id": x.text("organization_id"), "project_id": x.text("project_id")} {
		if want := q.Get(name); want != "" && want != have {
			return false
		}
	}
	want := q.Get("key_hash")
	return want == "" || keyID(want) == k.ID
}

// keyOrder returns the order of a list; ties are broken by id so that pages do not overlap.
func keyOrder(q url.Values) (func(x, y *fsm.Key) int, error) {
	var by func(x, y *fsm.Key) int
	switch q.Get("sort_by") {
	case "", "created_at":
		by = func(x, y *fsm.Key) int { return x.CreatedAt.Compare(y.CreatedAt) }
	case "updated_at":
		by = func(x, y *fsm.Key) int { return x.UpdatedAt.Compare(y.UpdatedAt) }
	case "key_alias":
		by = func(x, y *fsm.Key) int { return cmp.Compare(x.Alias, y.Alias) }
	case "team_id":
		by = func(x, y *fsm.Key) int { return cmp.Compare(x.TeamID, y.TeamID) }
	case "token":
		by = func(x, y *fsm.Key) int { return 0 }
	default:
		return nil, badRequest("sort_by", "sort_by must be created_at, updated_at, key_alias, team_id or token.")
	}
	sign := -1
	switch q.Get("sort_order") {
	case "", "desc":
	case "asc":
		sign = 1
	default:
		return nil, badRequest("sort_order", "sort_order must be asc or desc.")
	}
	return func(x, y *fsm.Key) int { return sign * cmp.Or(by(x, y), cmp.Compare(x.ID, y.ID)) }, nil
}
