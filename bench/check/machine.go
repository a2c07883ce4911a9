package main

import (
	"fmt"
	"os"
	"runtime"
	"strings"
)

// state describes the machine, for readers of the figures.
type state struct {
	CPU        string `json:"cpu"`
	Cores      int    `json:"cores"`
	Kernel     string `json:"kernel"`
	Go         string `json:"go"`
	LoadBefore string `json:"load_before"`
	LoadAfter  string `json:"load_after"`
}

func machine() state {
	return state{
		CPU: cpuModel(), Cores: runtime.NumCPU(), Kernel: runtime.GOOS + " " + word("/proc/sys/kernel/osrelease"),
		Go: runtime.Version(), LoadBefore: loadAverage(),
	}
}

// String returns the state in one line.
func (s state) String() string {
	return fmt.Sprintf("%s (%s), %d cores, %s, %s; load average (1, 5, 15 min) before %s, after %s",
		s.CPU, runtime.GOARCH, s.Cores, s.Kernel, s.Go, s.LoadBefore, s.LoadAfter)
}

// cpuModel returns the first model name in /proc/cpuinfo.
func cpuModel() string {
	raw, _ := os.ReadFile("/proc/cpuinfo")
	for l := range strings.Lines(string(raw)) {
		if key, value, ok := strings.Cut(l, ":"); ok && strings.TrimSpace(key) == "model name" {
			return strings.TrimSpace(value)
		}
	}
	return "unknown processor"
}

// word returns the content of a small file, or "unknown".
func word(name string) string {
	raw, err := os.ReadFile(name)
	if err != nil {
		return "unknown"
	}
	return strings.TrimSpace(string(raw))
}

func loadAverage() string {
	f := strings.Fields(word("/proc/loadavg"))
	return strings.Join(f[:min(len(f), 3)], " ")
}
