package logp

import (
	"encoding/json"
	"os"
	"strconv"
	"testing"

	"github.com/goshmem/goshmem/coll/ftco"
	"github.com/goshmem/goshmem/coll/tree"
)

func published(tb testing.TB, lc tree.LevelsConfig, kind ftco.Kind) *Published {
	tb.Helper()
	l, err := tree.NewLevels(lc)
	if err != nil {
		tb.Fatal(err)
	}
	g, err := ftco.NewPublishedGroup(ftco.PublishedConfig{Tree: l, Collective: kind, Latency: 10, Seed: 1})
	if err != nil {
		tb.Fatal(err)
	}
	return NewPublished(g)
}

func TestFaultFree(t *testing.T) {
	type figs = map[string]map[string][4]int
	var raw map[string]json.RawMessage
	var ref struct{ All figs }
	b, _ := os.ReadFile("/work/shared/reference/ftco-reference.json")
	if err := json.Unmarshal(b, &raw); err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(raw["knomial_multiroot_all_k[steps,out,msgs,maxq]"], &ref.All); err != nil {
		t.Fatal(err)
	}
	total, bad := 0, 0
	for ns, ks := range ref.All {
		n, _ := strconv.Atoi(ns)
		for kss, want := range ks {
			k, _ := strconv.Atoi(kss)
			p := published(t, tree.LevelsConfig{N: n, K: k, MultiRoot: true}, ftco.Allreduce)
			r, err := NewEngine[ftco.PubMsg](p).Run(Config{Nodes: n, Latency: 10})
			if err != nil {
				t.Error(n, k, err)
			}
			total++
			if got := [4]int{int(r.Latency), int(r.OutSpread), int(r.Messages), r.MaxQueue}; got != want {
				bad++
				t.Log(n, k, got, want)
			}
		}
	}
	t.Log(total, bad)
}
