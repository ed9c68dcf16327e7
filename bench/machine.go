package bench

import (
	"os"
	"runtime"
	"strings"
	"time"
)

// Machine says where and when a figure was measured.
type Machine struct {
	CPU      string `json:"cpu"`
	Cores    int    `json:"cores"`
	Platform string `json:"platform"`
	Go       string `json:"go"`
	Date     string `json:"date"`
	Version  string `json:"version"`
	Command  string `json:"command"`
}

// ThisMachine describes the running process.
func ThisMachine(now time.Time, version string) Machine {
	m := Machine{
		CPU:      "unknown",
		Cores:    runtime.NumCPU(),
		Platform: runtime.GOOS + "/" + runtime.GOARCH,
		Go:       runtime.Version(),
		Date:     now.UTC().Format(time.DateOnly),
		Version:  version,
		Command:  "recalld " + strings.Join(os.Args[1:], " "),
	}
	raw, err := os.ReadFile("/proc/cpuinfo")
	if err != nil {
		return m
	}
	for line := range strings.Lines(string(raw)) {
		if name, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(name) == "model name" {
			m.CPU = strings.TrimSpace(value)
			break
		}
	}
	return m
}
