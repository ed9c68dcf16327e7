package api

import (
	"context"

	"github.com/prometheus/client_golang/prometheus"

	"recalld/coordinator"
)

// indexCollector turns what a service says of its derived files and its scanner
// into figures. What the scanner's process counts begins anew with each process.
type indexCollector struct {
	service coordinator.Service

	files, bytes, rows, dead, recent, lag, cells, quarantined *prometheus.Desc
	up, restarts                                              *prometheus.Desc
	scans, scanned, read, passes, coalesced, seconds, waited  *prometheus.Desc
	mapped, locked, anonymous                                 *prometheus.Desc
}

func newIndexCollector(service coordinator.Service) *indexCollector {
	desc := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc("recalld_"+name, help, labels, nil)
	}
	return &indexCollector{
		service:     service,
		files:       desc("index_files", "Derived files, of words or of codes.", "kind"),
		bytes:       desc("index_bytes", "Bytes of derived files; those of codes hold those of values, the vectors of blocks and records.", "kind"),
		rows:        desc("index_rows", "Rows in derived files: records for words; blocks and record vectors for codes.", "kind"),
		dead:        desc("index_dead_rows", "Rows of codes in files that were replaced or deleted."),
		recent:      desc("index_recent_rows", "Rows that are searched and not in files yet.", "kind"),
		lag:         desc("index_lag_changes", "Changes of the store that are not taken over yet.", "kind"),
		cells:       desc("index_cells", "Cells that the scanner answers for (built) and those that it does not yet (missing).", "state"),
		quarantined: desc("index_quarantined_files", "Damaged files that were set aside."),
		up:          desc("scanner_up", "1 when the scanner's process runs."),
		restarts:    desc("scanner_restarts_total", "Processes of the scanner after the first."),
		scans:       desc("scanner_scans_total", "Requests to the process, for blocks or for records.", "kind"),
		scanned:     desc("scanner_rows_total", "Rows that the process compared.", "kind"),
		read:        desc("scanner_read_bytes_total", "Bytes of codes that the process read."),
		passes:      desc("scanner_passes_total", "Passes over the codes of a scope."),
		coalesced:   desc("scanner_coalesced_queries_total", "Queries that shared a pass with another request's."),
		seconds:     desc("scanner_pass_seconds_total", "Time in which passes ran."),
		waited:      desc("scanner_wait_seconds_total", "Time in which passes waited for their turn."),
		mapped:      desc("scanner_mapped_bytes", "Bytes of derived files that the process has mapped."),
		locked:      desc("scanner_locked_bytes", "Of these, bytes locked in memory."),
		anonymous:   desc("scanner_anonymous_bytes", "Memory of the process that is no file's."),
	}
}

// Describe implements [prometheus.Collector].
func (c *indexCollector) Describe(to chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{
		c.files, c.bytes, c.rows, c.dead, c.recent, c.lag, c.cells, c.quarantined, c.up, c.restarts,
		c.scans, c.scanned, c.read, c.passes, c.coalesced, c.seconds, c.waited, c.mapped, c.locked, c.anonymous,
	} {
		to <- d
	}
}

// The kinds of derived rows.
const (
	ofWords   = "words"
	ofCodes   = "codes"
	ofValues  = "values"
	ofBlocks  = "blocks"
	ofRecords = "records"
)

// Collect implements [prometheus.Collector]. Of a service that does not answer, or
// has no scanner, there is less to say.
func (c *indexCollector) Collect(to chan<- prometheus.Metric) {
	ctx, done := context.WithTimeout(context.Background(), scrapeTimeout)
	defer done()
	s, err := c.service.Index(ctx, coordinator.IndexStateRequest{})
	if err != nil {
		return
	}
	gauge := func(d *prometheus.Desc, v int64, labels ...string) {
		to <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, float64(v), labels...)
	}
	count := func(d *prometheus.Desc, v float64, labels ...string) {
		to <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, v, labels...)
	}
	gauge(c.files, int64(s.Words.Files), ofWords)
	gauge(c.bytes, s.Words.Bytes, ofWords)
	gauge(c.rows, s.Words.Rows, ofWords)
	gauge(c.recent, s.Words.Recent, ofWords)
	gauge(c.lag, s.LastChange-s.Words.Applied, ofWords)
	k := s.Codes
	if k.Scanner == coordinator.ScannerOff {
		return
	}
	gauge(c.files, int64(k.Files), ofCodes)
	gauge(c.bytes, k.Bytes, ofCodes)
	gauge(c.bytes, k.ValueBytes, ofValues)
	gauge(c.rows, k.Rows, ofCodes)
	gauge(c.dead, k.Dead)
	gauge(c.recent, k.DeltaRows, ofCodes)
	gauge(c.lag, k.Lag, ofCodes)
	gauge(c.cells, k.Built, "built")
	gauge(c.cells, k.Total-k.Built, "missing")
	gauge(c.quarantined, k.Quarantined)
	count(c.restarts, float64(k.Restarts))
	p := k.Process
	if p == nil {
		gauge(c.up, 0)
		return
	}
	gauge(c.up, 1)
	count(c.scans, float64(p.Scans), ofBlocks)
	count(c.scans, float64(p.Ranks), ofRecords)
	count(c.scanned, float64(p.Blocks), ofBlocks)
	count(c.scanned, float64(p.Records), ofRecords)
	count(c.read, float64(p.Bytes))
	count(c.passes, float64(p.Passes))
	count(c.coalesced, float64(p.Coalesced))
	count(c.seconds, p.Seconds)
	count(c.waited, p.Waited)
	gauge(c.mapped, p.Mapped)
	gauge(c.locked, p.Locked)
	gauge(c.anonymous, p.Anonymous)
}
