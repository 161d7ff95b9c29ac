package limiter

import (
	"reflect"
	"testing"
	"time"
)

func TestAdoptedLedger(t *testing.T) {
	const now, window = Time(100e9), time.Minute
	at := func(name string, start, requests, tokens int64) CountState {
		return CountState{Name: name, Start: Time(start * 1e9), Requests: requests, Tokens: tokens}
	}
	lent := func(c CountState) CountState { c.Lent = 120e9; return c }
	pools := func(c CountState, p ...CountState) CountState { c.Pools = p; return c }
	models := func(c ...CountState) LedgerState { return LedgerState{Models: c} }
	key := func(total *CountState, slots []SlotState, m ...CountState) LedgerState {
		return LedgerState{Keys: []SubjectState{{ID: "k", Total: total, Models: m, Slots: slots}}}
	}
	early, late, sum, over := at("", 50, 1, 10), at("", 80, 2, 20), at("", 80, 3, 30), at("", 40, 9, 9)
	for name, tt := range map[string]struct{ own, other, want LedgerState }{
		"nothing":                {},
		"the later epoch":        {own: LedgerState{Epoch: 3}, other: LedgerState{Epoch: 7}, want: LedgerState{Epoch: 7}},
		"nobody's process runs":  {own: LedgerState{Sessions: []SessionState{{Node: "a"}}}, other: LedgerState{Sessions: []SessionState{{Node: "b"}}}},
		"own window":             {own: models(at("m", 50, 1, 10)), want: models(at("m", 50, 1, 10))},
		"other's window":         {other: models(at("m", 50, 1, 10)), want: models(at("m", 50, 1, 10))},
		"windows that are over":  {own: models(at("m", 40, 1, 10)), other: models(at("n", 1, 1, 10))},
		"both, by name":          {own: models(at("n", 50, 1, 1)), other: models(at("m", 60, 2, 2)), want: models(at("m", 60, 2, 2), at("n", 50, 1, 1))},
		"both in one":            {own: models(at("m", 50, 1, 10)), other: models(at("m", 80, 2, 20)), want: models(at("m", 80, 3, 30))},
		"one of them over":       {own: models(at("m", 30, 1, 10)), other: models(at("m", 80, 2, 20)), want: models(at("m", 80, 2, 20))},
		"own loans come back":    {own: models(lent(at("m", 50, 1, 1))), want: models(lent(at("m", 50, 1, 1)))},
		"other's loans do not":   {other: models(lent(at("m", 50, 1, 1))), want: models(at("m", 50, 1, 1))},
		"pools":                  {own: models(pools(at("m", 50, 1, 1), at("a", 0, 1, 1))), other: models(pools(at("m", 50, 1, 1), at("a", 0, 2, 2), at("b", 0, 3, 3))), want: models(pools(at("m", 50, 2, 2), at("a", 0, 3, 3), at("b", 0, 3, 3)))},
		"a key in both":          {own: key(&early, nil), other: key(&late, nil), want: key(&sum, nil)},
		"a key's models":         {own: key(nil, nil, at("m", 50, 1, 1)), other: key(&late, nil, at("m", 60, 1, 1)), want: key(&late, nil, at("m", 60, 2, 2))},
		"slots are nobody's":     {other: key(&late, []SlotState{{"n1", 2}}), want: key(&late, nil)},
		"a key of which is over": {own: key(&over, []SlotState{{"n1", 2}})},
	} {
		t.Run(name, func(t *testing.T) {
			got := Adopt(tt.own, tt.other, now, window)
			loaded, err := LoadLedger(got)
			if err != nil {
				t.Fatal(err)
			}
			if saved := loaded.Save(now, window); !reflect.DeepEqual(plain(saved), plain(tt.want)) {
				t.Errorf("got  %+v\nwant %+v", saved, tt.want)
			}
		})
	}
}

// plain gives empty lists one form.
func plain(st LedgerState) LedgerState {
	st.Sessions = nil
	return st.mapCounts(func(c CountState) CountState { return c })
}

func TestShiftMovesWindowsAndLoansAndNothingElse(t *testing.T) {
	total := CountState{Start: 5, Requests: 1}
	st := LedgerState{Epoch: 3, Models: []CountState{{Name: "m", Start: 10, Lent: 20, Requests: 1, Pools: []CountState{{Name: "p", Lent: 30, Tokens: 2}}}},
		Keys: []SubjectState{{ID: "k", Total: &total, Models: []CountState{{Name: "m", Start: 7}}, Slots: []SlotState{{"n1", 1}}}}}
	got := st.Shift(100)
	if m := got.Models[0]; got.Epoch != 3 || m.Start != 110 || m.Lent != 120 || m.Requests != 1 || m.Pools[0].Start != 0 || m.Pools[0].Lent != 130 || m.Pools[0].Tokens != 2 {
		t.Errorf("model is %+v", m)
	}
	if k := got.Keys[0]; k.Total.Start != 105 || k.Models[0].Start != 107 || k.Models[0].Lent != 0 || k.Slots[0].N != 1 || total.Start != 5 {
		t.Errorf("key is %+v", k)
	}
}
