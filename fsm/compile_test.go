package fsm

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"sluice/limiter"
)

func compile(t testing.TB, c Config) *Compiled {
	t.Helper()
	out, err := Compile(c)
	if err != nil {
		t.Fatalf("compile: %v", err)
	}
	return out
}

func TestNamesResolveThroughAliasesExactNamesAndLongestPrefix(t *testing.T) {
	per := mockModel("per/*", 5, -1)
	per.PerName = true
	cfg := testConfig(mockModel("a", 1, -1), mockModel("openai/*", 2, -1), mockModel("openai/gpt-*", 3, -1),
		mockModel("openai/gpt-4", 4, -1), per)
	cfg.Aliases = map[string]string{"fast": "quick", "quick": "a", "mini": "openai/mini", "p": "per/x"}
	c := compile(t, cfg)
	for _, tc := range []struct{ name, group, asked, entry string }{
		{"a", "a", "a", "a"},
		{"fast", "a", "a", "a"},
		{"quick", "a", "a", "a"},
		{"openai/gpt-4", "openai/gpt-4", "openai/gpt-4", "openai/gpt-4"},
		{"openai/gpt-5", "openai/gpt-*", "openai/gpt-5", "openai/gpt-*"},
		{"openai/o1", "openai/*", "openai/o1", "openai/*"},
		{"openai/", "openai/*", "openai/", "openai/*"},
		{"mini", "openai/*", "openai/mini", "openai/*"},
		{"per/x", "per/x", "per/x", "per/*"},
		{"p", "per/x", "per/x", "per/*"},
		{"nobody", "", "", ""},
		{"", "", "", ""},
		{"openai/*", "", "", ""},
		{"openai/a*", "", "", ""},
		{"A", "", "", ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r, ok := c.Resolve(tc.name)
			if ok != (tc.group != "") || r.Group != tc.group || r.Asked != tc.asked {
				t.Fatalf("resolved to %+v, %v", r, ok)
			}
			if !ok {
				return
			}
			if r.Model.Name != tc.entry || r.Policy == nil || r.Policy != c.PolicyFor(r.Group) || r.Policy.Limits.Requests != r.Model.RPM {
				t.Errorf("entry %s, policy %+v", r.Model.Name, r.Policy)
			}
		})
	}
	if c.PolicyFor("nobody") != nil {
		t.Error("an unknown group has a policy")
	}
	if got := c.ModelNames(); !slices.Equal(got, []string{"a", "openai/*", "openai/gpt-*", "openai/gpt-4", "per/*"}) {
		t.Errorf("names are %v", got)
	}
}

func TestACatchAllServesEverythingElse(t *testing.T) {
	c := compile(t, testConfig(mockModel("*", 1, -1), mockModel("a", 2, -1)))
	if r, ok := c.Resolve("whatever"); !ok || r.Group != "*" || r.Asked != "whatever" {
		t.Errorf("resolved to %+v, %v", r, ok)
	}
	if r, _ := c.Resolve("a"); r.Group != "a" {
		t.Errorf("resolved to %+v", r)
	}
	if _, ok := c.Resolve("*"); ok {
		t.Error("the pattern itself is no model")
	}
}

func TestCapacityIsTheModelsOwnElseTheSumOfItsDeployments(t *testing.T) {
	d := func(rpm, tpm limiter.Limit) Deployment { return Deployment{RPM: rpm, TPM: tpm} }
	none := limiter.Limit{}
	for _, tc := range []struct {
		name  string
		model Model
		want  limiter.Limits
	}{
		{"nothing stated", Model{Deployments: []Deployment{d(none, none)}}, limiter.Limits{}},
		{"own", Model{RPM: limiter.Of(5), Deployments: []Deployment{d(limiter.Of(1), none)}}, limiter.Limits{Requests: limiter.Of(5)}},
		{"own of nothing", Model{RPM: limiter.Of(0), Deployments: []Deployment{d(limiter.Of(1), none)}}, limiter.Limits{Requests: limiter.Of(0)}},
		{"sum of those that state one", Model{Deployments: []Deployment{d(limiter.Of(1), none), d(none, limiter.Of(7)), d(limiter.Of(2), none)}},
			limiter.Limits{Requests: limiter.Of(3), Tokens: limiter.Of(7)}},
		{"each dimension by itself", Model{TPM: limiter.Of(9), Deployments: []Deployment{d(limiter.Of(1), limiter.Of(1))}},
			limiter.Limits{Requests: limiter.Of(1), Tokens: limiter.Of(9)}},
		{"no overflow", Model{Deployments: []Deployment{d(limiter.Of(math.MaxInt64), none), d(limiter.Of(5), none)}},
			limiter.Limits{Requests: limiter.Of(math.MaxInt64)}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if got := tc.model.capacity(); got != tc.want {
				t.Errorf("capacity is %+v, want %+v", got, tc.want)
			}
		})
	}
}

func TestCompileWarnsOfWhatIsAllowedButOdd(t *testing.T) {
	zero := int64(0)
	cfg := testConfig(mockModel("a", 10, -1), Model{Name: "idle", Deployments: []Deployment{{Provider: ProviderMock, Weight: &zero}}})
	cfg.Reservation.Shares = map[string]limiter.Share{
		"x": {Kind: limiter.SharePercent, Value: 0.9}, "y": {Kind: limiter.SharePercent, Value: 0.9},
	}
	all := strings.Join(compile(t, cfg).Warnings, "\n")
	want := "models a, idle: priority_reservation adds up to 1.8; every share is divided by that\n" +
		"model idle: every deployment has weight 0, so it serves nothing"
	if all != want {
		t.Errorf("warnings are\n%s\nwant\n%s", all, want)
	}
	for i := range 9 {
		cfg.Models = append(cfg.Models, mockModel(fmt.Sprint("m", i), 10, -1))
	}
	if all := compile(t, cfg.Normalize()).Warnings; len(all) != 2 || !strings.HasPrefix(all[0], "models a, idle, m0 and 8 more: priority_reservation adds up") {
		t.Errorf("one table of shares, %d warnings: %q", len(all), all)
	}
}

func TestRulesFollowTheSettings(t *testing.T) {
	cfg := testConfig()
	cfg.Limits.TokenRateLimitType, cfg.Limits.CountCachedTokens = "output", false
	if got := compile(t, cfg).Rules(); got != (limiter.Rules{Window: DefaultWindow, TokenType: limiter.OutputTokens, IgnoreCached: true}) {
		t.Errorf("rules are %+v", got)
	}
	cfg.Limits.Allocation, cfg.Limits.HoldBack = AllocateConserving, 0.1
	if got, want := compile(t, cfg).Rules().Sharing, (limiter.Sharing{Conserving: true, HoldBack: 0.1, Active: DefaultActiveWindow}); got != want {
		t.Errorf("pools share by %+v, want %+v", got, want)
	}
	cfg.Limits.Oversize = OversizeAlone
	if got := compile(t, cfg).Rules(); got.Reserve || got.Alone {
		t.Errorf("tokens are recorded, but the rules are %+v", got)
	}
	cfg.Limits.TokenAccounting = AccountReserved
	if got := compile(t, cfg).Rules(); !got.Reserve || !got.Alone {
		t.Errorf("tokens are reserved, but the rules are %+v", got)
	}
}

func TestHotLookupsDoNotAllocate(t *testing.T) {
	r := newRig(t)
	cfg := testConfig(mockModel("a", 1, -1), mockModel("openai/*", 2, -1))
	cfg.Aliases = map[string]string{"fast": "a"}
	mustConfig(t, r.Client, cfg)
	k := testKey("k")
	k.RPM = limiter.Of(1)
	mustKey(t, r.Client, k)
	v := r.s.View()
	if n := testing.AllocsPerRun(100, func() {
		v.Config().Resolve("fast")
		v.Config().Resolve("openai/x")
		p := v.Policy()
		p.Key(k.ID)
		p.Model("a")
		p.Rules()
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func TestCompileWarnsOfLimitSettingsThatDoNothing(t *testing.T) {
	for _, tc := range []struct {
		name   string
		limits LimitSettings
		want   string // part of the only warning; "" for none
	}{
		{"defaults written out", LimitSettings{ActiveWindow: DefaultActiveWindow, Oversize: OversizeReject}, ""},
		{"hold_back alone", LimitSettings{HoldBack: 0.1}, `limits.hold_back has no effect without limits.allocation = "work_conserving"`},
		{"active_window alone", LimitSettings{ActiveWindow: time.Second}, "limits.active_window has no effect without"},
		{"oversize alone", LimitSettings{Oversize: OversizeAlone}, `limits.oversize has no effect without limits.token_accounting = "reserve"`},
		{"with their mode", LimitSettings{HoldBack: 0.1, ActiveWindow: time.Second, Allocation: AllocateConserving}, ""},
		{"reserve with a tpm below one request", LimitSettings{TokenAccounting: AccountReserved, Oversize: OversizeAlone}, "model small: with limits.token_accounting"},
		{"reserve of input only", LimitSettings{TokenAccounting: AccountReserved, TokenRateLimitType: "input"}, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			cfg := testConfig(mockModel("small", -1, leastReserved-1), mockModel("large", -1, leastReserved), mockModel("blocked", -1, 0))
			cfg.Limits = tc.limits
			got := compile(t, cfg.Normalize()).Warnings
			if len(got) > 1 || (len(got) == 1) != (tc.want != "") || !strings.Contains(strings.Join(got, ""), tc.want) {
				t.Errorf("warnings are %q, want one with %q", got, tc.want)
			}
		})
	}
}
