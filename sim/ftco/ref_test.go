package ftco

import (
	"encoding/json"
	"fmt"
	"os"
	"testing"
)

func TestScratch(t *testing.T) {
	var raw map[string]json.RawMessage
	b, _ := os.ReadFile("/work/shared/reference/ftco-reference.json")
	_ = json.Unmarshal(b, &raw)
	type row struct {
		Lat, Work float64
		QAvg      float64 `json:"queue_avg"`
		QMax      float64 `json:"queue_max"`
	}
	var csv, gosim map[string]map[string]map[string]row
	fmt.Println(json.Unmarshal(raw["fig8_9_10_published_csv"], &csv), json.Unmarshal(raw["fig8_9_10_go_sim"], &gosim))
	best := map[string]int{"1024": 11, "2048": 12, "4096": 9, "8192": 10, "16384": 12, "32768": 9, "65536": 9}
	for _, n := range []string{"1024", "2048", "4096", "8192", "16384", "32768", "65536"} {
		for _, kind := range []string{"inactive", "online"} {
			for _, f := range []int{1, 10, 100} {
				o := Defaults()
				fmt.Sscan(n, &o.Nodes)
				o.Radix = best[n]
				o.Runs = max(20, min(400, 1<<20/o.Nodes))
				o.Parallel = 2
				if kind == "inactive" {
					o.Inactive = f
				} else {
					o.Online = f
				}
				r, err := Run(o)
				if err != nil {
					t.Error(n, kind, f, err)
					continue
				}
				c, g := csv[n][kind][fmt.Sprint(f)], gosim[n][kind][fmt.Sprint(f)]
				fmt.Printf("%6s %8s %3d lat %.1f csv %.1f go %.1f (%+.1f%%) work %.2f csv %.2f go %.2f queue %.1f %.1f max %v %v\n", n, kind, f,
					r.Latency.Mean, c.Lat, g.Lat, 100*(r.Latency.Mean/c.Lat-1), r.Messages.Mean, c.Work, g.Work, r.MaxQueue.Mean, c.QAvg, r.MaxQueue.Max, c.QMax)
			}
		}
	}
}
