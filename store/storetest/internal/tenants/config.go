package tenants

import (
	"fmt"
	"strings"
	"time"

	"github.com/sojourn-queue/sojourn"
	"github.com/sojourn-queue/sojourn/access"
	"github.com/sojourn-queue/sojourn/store/config"
	"github.com/sojourn-queue/sojourn/store/storetest/internal/kit"
	"github.com/sojourn-queue/sojourn/store/workers"
)

var configTrials = []kit.Trial{
	{Name: "settings of a store", Law: "A store keeps settings for all its processes: known ones with checked values, free ones of operators, each until it is unset.",
		Covers: "spec:X13", Run: storeSettings},
	{Name: "bounds of the settings of a store", Law: "Unknown names and bad values are refused, and the free settings are bounded in name, value and number.", Covers: "spec:X13", Run: settingBounds},
	{Name: "the life of workers is a setting", Law: "The setting worker_life says how long a worker is listed after its last sign of life, and a worker that lives stays on the list.",
		Covers: "spec:X13 spec:W12", Run: workerLifeSet},
	{Name: "a token without admin sees no settings", Law: "Only a token with the verb admin for everything reads and changes the settings of a store.", Covers: "spec:X13 spec:H7", Run: settingsByTenant},
}

// settings are the calls about the settings of the store.
func settings(s *kit.Scene) config.Config {
	s.Helper()
	if _, ok := s.Store.(config.Store); !ok {
		s.Skip("this store keeps no settings")
	}
	return config.Of(sojourn.NewClient(s.Store))
}

// listed shows the settings.
func listed(s *kit.Scene) string {
	s.Helper()
	all, err := settings(s).All(s.Ctx)
	s.Must(err, "All")
	var out []string
	for _, one := range all {
		out = append(out, strings.TrimSpace(fmt.Sprintf("%s=%s %s", one.Name, one.Value, one.By)))
		kit.Same(s, one.Name+" is set", one.Set, !one.At.IsZero())
	}
	return strings.Join(out, ", ")
}

func storeSettings(s *kit.Scene) {
	c := settings(s)
	before := listed(s)
	kit.Same(s, "settings of a new store", before, "histogram_days="+config.Default(config.HistogramDays)+", statistics_days=30, worker_life=24h0m0s")
	got, err := c.Set(s.Ctx, config.WorkerLife, "90m", "ann")
	s.Must(err, "Set")
	kit.Same(s, "the answer", kit.Text(got), kit.Text(config.Setting{Name: config.WorkerLife, Value: "1h30m0s", Set: true, By: "ann", At: got.At}))
	s.At("when it was set", got.At, s.Now())
	_, err = c.Set(s.Ctx, "x-region", "eu <\"1\">", "")
	s.Must(err, "Set of a free setting")
	_, err = c.Set(s.Ctx, "x-region", "us", "eve")
	s.Must(err, "Set again")
	kit.Same(s, "settings", listed(s), strings.Replace(before, "24h0m0s", "1h30m0s ann", 1)+", x-region=us eve")
	one, err := c.Get(s.Ctx, "x-region")
	s.Must(err, "Get")
	kit.Same(s, "one setting", one.Value, "us")
	for range 2 {
		s.Must(c.Unset(s.Ctx, "x-region"), "Unset")
		s.Must(c.Unset(s.Ctx, config.WorkerLife), "Unset")
	}
	_, err = c.Get(s.Ctx, "x-region")
	s.Is(err, sojourn.ErrNotFound, "a free setting that is not set")
	kit.Same(s, "settings", listed(s), before)
}

func settingBounds(s *kit.Scene) {
	c := settings(s)
	before := listed(s)
	for _, bad := range [][2]string{{"worker_live", "1h"}, {"", "1"}, {"x-", "1"}, {"x-a b", "1"}, {"x-" + strings.Repeat("n", config.MaxName), "1"}, {"instance", "1"},
		{config.WorkerLife, ""}, {config.WorkerLife, "9m"}, {config.WorkerLife, "8761h"}, {config.WorkerLife, "1"}, {config.StatisticsDays, "0"}, {config.StatisticsDays, "3651"}, {config.HistogramDays, "x"}} {
		_, err := c.Set(s.Ctx, bad[0], bad[1], "ann")
		s.Refused(err, sojourn.CodeInvalid, bad[0]+" = "+bad[1])
	}
	s.Refused(c.Unset(s.Ctx, "secret"), sojourn.CodeInvalid, "Unset of what is no setting")
	_, err := c.Set(s.Ctx, "x-a", strings.Repeat("v", config.MaxValue+1), "ann")
	s.Refused(err, sojourn.CodeTooLarge, "a value that is too long")
	kit.Same(s, "settings", listed(s), before)
	for n := range config.MaxFree {
		_, err := c.Set(s.Ctx, fmt.Sprintf("x-%d", n), strings.Repeat("v", config.MaxValue), "ann")
		s.Must(err, "Set of free setting %d", n)
	}
	_, err = c.Set(s.Ctx, "x-more", "1", "ann")
	s.Refused(err, sojourn.CodeConflict, "a free setting beyond the limit")
	for _, name := range []string{"x-0", config.WorkerLife} {
		_, err = c.Set(s.Ctx, name, "12h", "ann")
		s.Must(err, "Set of %s at the limit", name)
	}
}

func workerLifeSet(s *kit.Scene) {
	c := settings(s)
	_, err := c.Set(s.Ctx, config.WorkerLife, "2h", "ann")
	s.Must(err, "Set")
	s.ClaimNone("no job", kit.By("w1"))
	s.ClaimNone("no job", kit.By("w2"))
	kit.Same(s, "the life of a worker", s.Workers("", 0, "w1")[0].Life, 2*time.Hour)
	s.Advance(time.Hour + time.Minute)
	s.ClaimNone("no job", kit.By("w1")) // it is registered again
	s.Advance(30 * time.Minute)
	kit.Same(s, "the state of a silent worker", stateOf(s, "w2"), workers.Gone)
	s.Advance(30 * time.Minute)
	kit.Same(s, "workers", workerIDs(s.Workers("", 0)), "w1")
	s.Advance(2 * time.Hour)
	kit.Same(s, "workers after their life", workerIDs(s.Workers("", 0)), "")
	s.Must(c.Unset(s.Ctx, config.WorkerLife), "Unset")
	s.ClaimNone("no job", kit.By("w3"))
	s.Advance(23 * time.Hour)
	kit.Same(s, "workers after the life was unset", s.Workers("", 0, "w3")[0].Life, sojourn.WorkerLife)
}

func settingsByTenant(s *kit.Scene) {
	before := listed(s)
	for name, g := range map[string]access.Grant{"operator": {Verbs: []access.Verb{access.VerbRead, access.VerbOperate, access.VerbWork}},
		"one": {Verbs: []access.Verb{access.VerbAdmin}, Queue: kit.Queue, Kind: "*"}} {
		mine := s.Tenant(name, g)
		_, err := settings(mine).All(mine.Ctx)
		refusedBy(s, err, name)
		_, err = settings(mine).Set(mine.Ctx, "x-a", "1", "ann")
		refusedBy(s, err, name)
		refusedBy(s, settings(mine).Unset(mine.Ctx, config.WorkerLife), name)
	}
	kit.Same(s, "settings", listed(s), before)
	admin := s.Tenant("root", kit.Everything)
	got, err := settings(admin).Set(admin.Ctx, "x-a", "1", "ann")
	s.Must(err, "Set by an admin")
	kit.Same(s, "who", got.By, "root/ann")
}

// refusedBy wants a call to be refused for the grants of a token.
func refusedBy(s *kit.Scene, err error, token string) {
	s.Helper()
	s.Refused(err, access.CodeScope, "a call with the token "+token)
}
