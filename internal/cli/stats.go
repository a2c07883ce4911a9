package cli

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strconv"
	"time"

	"github.com/goshmem/goshmem/internal/launch"
)

// statsField documents a field of what --stats=json writes.
type statsField struct {
	Field   string `json:"field"`
	Meaning string `json:"meaning"`
}

// statsFields are the fields of what --stats=json writes, and the columns of the table.
var statsFields = []statsField{
	{"status", "STATUS: exit status of the job; of a PE, 128+n if signal n killed it"},
	{"wall_s", "WALL: seconds from the start of the job to the end of the last PE; of a PE, from its start to its end"},
	{"watchdog", "WATCHDOG: how deaths of PEs were learnt of; oshrun help watchdog"},
	{"user_s", "USER: seconds of processor time in programs"},
	{"system_s", "SYSTEM: seconds of processor time in the kernel"},
	{"max_rss_bytes", "MAX RSS: most memory that was resident at a time, null (-) if not known; of the job, that of the largest PE"},
	{"pes", "array of objects, one for each PE, with the fields above and below"},
	{"pes[].pe", "PE: its number, as a string: 3; 1.3 is PE 3 of the first spawned job"},
	{"pes[].pid", "PID: number of its process"},
	{"pes[].voluntary_switches", "WAITS: how often it gave a processor back to wait"},
	{"pes[].involuntary_switches", "PREEMPTED: how often it had to make room for somebody else"},
}

func statsHelp() []byte {
	rows := [][]string{{"FIELD", "MEANING"}}
	for _, f := range statsFields {
		rows = append(rows, []string{f.Field, f.Meaning})
	}
	var b bytes.Buffer
	tabulate(&b, rows)
	b.WriteString("\nTimes and memory of a PE include what it has started and waited for. The kernel\ncounts the memory of oshrun, from which a PE is started, too. So MAX RSS of a PE that\nhad less than oshrun is what its own process was seen to have: oshrun looks 1 ms\nafter its start, then more and more seldom, down to once in a second, and when it\nleaves the job (Finalize) or is ended by oshrun. Of one that ends before the first\nlook it is not known.\n")
	return b.Bytes()
}

// statsReport is what --stats=json writes; statsFields documents it.
type statsReport struct {
	Status int       `json:"status"`
	Tier   string    `json:"watchdog"`
	Wall   float64   `json:"wall_s"`
	User   float64   `json:"user_s"`
	System float64   `json:"system_s"`
	MaxRSS *uint64   `json:"max_rss_bytes"`
	PEs    []peStats `json:"pes"`
}

type peStats struct {
	PE          string  `json:"pe"`
	PID         int     `json:"pid"`
	Status      int     `json:"status"`
	Wall        float64 `json:"wall_s"`
	User        float64 `json:"user_s"`
	System      float64 `json:"system_s"`
	MaxRSS      *uint64 `json:"max_rss_bytes"`
	Voluntary   int64   `json:"voluntary_switches"`
	Involuntary int64   `json:"involuntary_switches"`
}

func newStatsReport(s *launch.Stats) *statsReport {
	r := &statsReport{Status: s.Status, Tier: s.Tier, Wall: s.Wall.Seconds(), PEs: []peStats{}} // an array in JSON, even if empty
	most := uint64(0)
	for _, p := range s.PEs {
		r.PEs = append(r.PEs, peStats{
			PE: p.ID, PID: p.PID, Status: p.Status, Wall: p.Wall.Seconds(), User: p.User.Seconds(), System: p.System.Seconds(),
			MaxRSS: known(p.MaxRSS), Voluntary: p.Voluntary, Involuntary: p.Involuntary,
		})
		r.User += p.User.Seconds()
		r.System += p.System.Seconds()
		most = max(most, p.MaxRSS)
	}
	r.MaxRSS = known(most)
	return r
}

// known returns nil for 0.
func known(n uint64) *uint64 {
	if n == 0 {
		return nil
	}
	return &n
}

// statsTable is what --stats prints.
func statsTable(s *launch.Stats) ([]byte, error) {
	rows := [][]string{{"PE", "PID", "STATUS", "WALL", "USER", "SYSTEM", "MAX RSS", "WAITS", "PREEMPTED"}}
	var user, system time.Duration
	var most uint64
	var waits, preempted int64
	for _, p := range s.PEs {
		rows = append(rows, []string{
			p.ID, strconv.Itoa(p.PID), strconv.Itoa(p.Status), seconds(p.Wall), seconds(p.User), seconds(p.System),
			mebibytes(p.MaxRSS), strconv.FormatInt(p.Voluntary, 10), strconv.FormatInt(p.Involuntary, 10),
		})
		user, system, most = user+p.User, system+p.System, max(most, p.MaxRSS)
		waits, preempted = waits+p.Voluntary, preempted+p.Involuntary
	}
	rows = append(rows, []string{
		"all", "", strconv.Itoa(s.Status), seconds(s.Wall), seconds(user), seconds(system),
		mebibytes(most), strconv.FormatInt(waits, 10), strconv.FormatInt(preempted, 10),
	})
	var b bytes.Buffer
	tabulate(&b, rows)
	fmt.Fprintf(&b, "watchdog  %s\n", s.Tier)
	return b.Bytes(), nil
}

func seconds(d time.Duration) string { return fmt.Sprintf("%.3fs", d.Seconds()) }

// mebibytes returns a size for the table, - for 0.
func mebibytes(n uint64) string {
	if n == 0 {
		return "-"
	}
	return fmt.Sprintf("%.1fM", float64(n)/(1<<20))
}

// writeStats writes the report to a file and closes it.
func writeStats(file *os.File, s *launch.Stats) error {
	enc := json.NewEncoder(file)
	enc.SetIndent("", "  ")
	return errors.Join(enc.Encode(newStatsReport(s)), file.Close())
}
