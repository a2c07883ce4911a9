package cli

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strconv"
	"time"

	"github.com/goshmem/goshmem/internal/daemon"
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
	{"pes[].far_operations", "FAR: operations on PEs of other nodes, those of barriers, allocation and locks included"},
	{"pes[].far_batches", "BATCHES: in how many pieces the agent of its node has sent them"},
	{"pes[].far_sent_bytes", "SENT: bytes of these batches, and of requests by express sockets, headers included"},
	{"pes[].far_received_bytes", "RECEIVED: bytes of the answers to them, headers included"},
	{"agents", "array of objects, one for each node with an agent: what it has exchanged with other agents"},
	{"agents[].host", "AGENT OF: name of the host"},
	{"agents[].batches", "BATCHES: how often it has sent something"},
	{"agents[].sent_bytes", "SENT: bytes of its PEs' operations, those by express sockets included, and of answers to other nodes"},
	{"agents[].received_bytes", "RECEIVED: bytes that have come from other nodes"},
}

func statsHelp() []byte {
	rows := [][]string{{"FIELD", "MEANING"}}
	for _, f := range statsFields {
		rows = append(rows, []string{f.Field, f.Meaning})
	}
	var b bytes.Buffer
	tabulate(&b, rows)
	b.WriteString("\nTimes and memory of a PE include what it has started and waited for. The kernel\ncounts the memory of oshrun, from which a PE is started, too. So MAX RSS of a PE that\nhad less than oshrun is what its own process was seen to have: oshrun looks 1 ms\nafter its start, then more and more seldom, down to once in a second, and when it\nleaves the job (Finalize) or is ended by oshrun. Of one that ends before the first\nlook it is not known.\n\nIn a job of several nodes the table has further parts: what PEs have done on other\nnodes, and what the agents of the nodes have exchanged, both in bytes. An operation\ncounts when it begins. A put with a signal counts as two.\n")
	return b.Bytes()
}

// statsReport is what --stats=json writes; statsFields documents it.
type statsReport struct {
	Status int          `json:"status"`
	Tier   string       `json:"watchdog"`
	Wall   float64      `json:"wall_s"`
	User   float64      `json:"user_s"`
	System float64      `json:"system_s"`
	MaxRSS *uint64      `json:"max_rss_bytes"`
	PEs    []peStats    `json:"pes"`
	Agents []agentStats `json:"agents"`
}

type agentStats struct {
	Host     string `json:"host"`
	Batches  uint64 `json:"batches"`
	Sent     uint64 `json:"sent_bytes"`
	Received uint64 `json:"received_bytes"`
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
	Operations  uint64  `json:"far_operations"`
	Batches     uint64  `json:"far_batches"`
	Sent        uint64  `json:"far_sent_bytes"`
	Received    uint64  `json:"far_received_bytes"`
}

func newStatsReport(s *launch.Stats) *statsReport {
	r := &statsReport{Status: s.Status, Tier: s.Tier, Wall: s.Wall.Seconds(), PEs: []peStats{}, Agents: []agentStats{}} // arrays in JSON, even if empty
	most := uint64(0)
	for _, p := range s.PEs {
		r.PEs = append(r.PEs, peStats{
			PE: p.ID, PID: p.PID, Status: p.Status, Wall: p.Wall.Seconds(), User: p.User.Seconds(), System: p.System.Seconds(),
			MaxRSS: known(p.MaxRSS), Voluntary: p.Voluntary, Involuntary: p.Involuntary,
			Operations: p.Far.Operations, Batches: p.Far.Batches, Sent: p.Far.Sent, Received: p.Far.Received,
		})
		r.User += p.User.Seconds()
		r.System += p.System.Seconds()
		most = max(most, p.MaxRSS)
	}
	for _, a := range s.Agents {
		r.Agents = append(r.Agents, agentStats{a.Host, a.Traffic.Batches, a.Traffic.Sent, a.Traffic.Received})
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
	if len(s.Agents) > 0 {
		tabulate(&b, farRows(s))
		tabulate(&b, agentRows(s))
	}
	fmt.Fprintf(&b, "watchdog  %s\n", s.Tier)
	return b.Bytes(), nil
}

// farRows are the rows of what PEs have done on other nodes.
func farRows(s *launch.Stats) [][]string {
	rows := [][]string{{"PE", "FAR", "BATCHES", "SENT", "RECEIVED"}}
	var all daemon.Traffic
	for _, p := range s.PEs {
		rows = append(rows, []string{p.ID, counted(p.Far.Operations), counted(p.Far.Batches), counted(p.Far.Sent), counted(p.Far.Received)})
		all.Operations, all.Batches = all.Operations+p.Far.Operations, all.Batches+p.Far.Batches
		all.Sent, all.Received = all.Sent+p.Far.Sent, all.Received+p.Far.Received
	}
	return append(rows, []string{"all", counted(all.Operations), counted(all.Batches), counted(all.Sent), counted(all.Received)})
}

// agentRows are the rows of what agents have exchanged.
func agentRows(s *launch.Stats) [][]string {
	rows := [][]string{{"AGENT OF", "BATCHES", "SENT", "RECEIVED"}}
	for _, a := range s.Agents {
		rows = append(rows, []string{a.Host, counted(a.Traffic.Batches), counted(a.Traffic.Sent), counted(a.Traffic.Received)})
	}
	return rows
}

func counted(n uint64) string { return strconv.FormatUint(n, 10) }

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
