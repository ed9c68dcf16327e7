package api

import (
	"context"
	"net/http"
	"strings"
	"time"

	"connectrpc.com/connect"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"recalld/coordinator"
	pb "recalld/proto/recalld/v1"
)

// Metrics are a server's figures for Prometheus: how long calls took and how
// they ended, what became of stored items, and what [coordinator.Status] and
// [coordinator.IndexState] say at the moment of a scrape. No label comes from a request, so that there is
// neither an agent nor a project in them. It is an [http.Handler] and is safe
// for concurrent use.
type Metrics struct {
	clock   func() time.Time
	seconds *prometheus.HistogramVec
	items   *prometheus.CounterVec
	refused *prometheus.CounterVec
	handler http.Handler
}

// scrapeTimeout bounds how long a scrape waits for the service, and scrapes how
// many are answered at once.
const (
	scrapeTimeout = 5 * time.Second
	scrapes       = 2
)

// NewMetrics returns figures of the service, which is asked at every scrape.
func NewMetrics(service coordinator.Service, clock func() time.Time) *Metrics {
	m := &Metrics{
		clock: clock,
		seconds: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "recalld_call_seconds", Help: "Time from a call's arrival to its answer, by how it ended.",
			Buckets: []float64{.0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 60},
		}, []string{"call", "code"}),
		items:   prometheus.NewCounterVec(prometheus.CounterOpts{Name: "recalld_store_items_total", Help: "Items of stores, by what became of them."}, []string{"outcome"}),
		refused: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "recalld_http_refused_total", Help: "Requests that were kept out before they reached a call."}, []string{"reason"}),
	}
	own := prometheus.NewRegistry()
	own.MustRegister(m.seconds, m.items, m.refused, newStatusCollector(service), newIndexCollector(service),
		collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	m.handler = promhttp.HandlerFor(own, promhttp.HandlerOpts{MaxRequestsInFlight: scrapes, Timeout: 2 * scrapeTimeout, ErrorHandling: promhttp.ContinueOnError})
	return m
}

// ServeHTTP implements [http.Handler].
func (m *Metrics) ServeHTTP(w http.ResponseWriter, r *http.Request) { m.handler.ServeHTTP(w, r) }

// Refused counts a request that was kept out; reason is one of a few words.
func (m *Metrics) Refused(reason string) { m.refused.WithLabelValues(reason).Inc() }

// observe counts one call that began at start.
func (m *Metrics) observe(procedure string, start time.Time, err error) {
	code := "ok"
	if err != nil {
		code = connect.CodeOf(err).String()
	}
	call := procedure[strings.LastIndexByte(procedure, '/')+1:]
	m.seconds.WithLabelValues(call, code).Observe(m.clock().Sub(start).Seconds())
}

// WrapUnary implements [connect.Interceptor].
func (m *Metrics) WrapUnary(next connect.UnaryFunc) connect.UnaryFunc {
	return func(ctx context.Context, r connect.AnyRequest) (connect.AnyResponse, error) {
		start := m.clock()
		response, err := next(ctx, r)
		m.observe(r.Spec().Procedure, start, err)
		if err == nil {
			if stored, ok := response.Any().(*pb.StoreResponse); ok {
				for _, result := range stored.GetResults() {
					m.items.WithLabelValues(result.GetOutcome()).Inc()
				}
			}
		}
		return response, err
	}
}

// WrapStreamingClient implements [connect.Interceptor].
func (m *Metrics) WrapStreamingClient(next connect.StreamingClientFunc) connect.StreamingClientFunc {
	return next
}

// WrapStreamingHandler implements [connect.Interceptor].
func (m *Metrics) WrapStreamingHandler(next connect.StreamingHandlerFunc) connect.StreamingHandlerFunc {
	return func(ctx context.Context, c connect.StreamingHandlerConn) error {
		start := m.clock()
		err := next(ctx, c)
		m.observe(c.Spec().Procedure, start, err)
		return err
	}
}

// statusCollector turns what a service says of itself into gauges.
type statusCollector struct {
	service coordinator.Service

	build, ready, agents, records, queue, wal, reader, erase *prometheus.Desc
}

func newStatusCollector(service coordinator.Service) *statusCollector {
	desc := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc("recalld_"+name, help, labels, nil)
	}
	return &statusCollector{
		service: service,
		build:   desc("build_info", "Always 1.", "version"),
		ready:   desc("ready", "1 when the service answers and is ready."),
		agents:  desc("agents", "Agents that the store knows."),
		records: desc("records", "Stored records.", "kind"),
		queue:   desc("embed_queue", "Records that wait for a vector (pending), wait after a failure (failed), or will get none (unembeddable).", "state"),
		wal:     desc("wal_bytes", "Size of the write-ahead log."),
		reader:  desc("oldest_reader_seconds", "Age of the oldest open snapshot, which keeps the log from being reset, in whole seconds."),
		erase:   desc("erase_pending", "1 while deleted bytes are still in the log."),
	}
}

// Describe implements [prometheus.Collector].
func (c *statusCollector) Describe(to chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{c.build, c.ready, c.agents, c.records, c.queue, c.wal, c.reader, c.erase} {
		to <- d
	}
}

// Collect implements [prometheus.Collector]. A service that does not answer is
// one gauge: not ready.
func (c *statusCollector) Collect(to chan<- prometheus.Metric) {
	ctx, done := context.WithTimeout(context.Background(), scrapeTimeout)
	defer done()
	gauge := func(d *prometheus.Desc, v float64, labels ...string) {
		to <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...)
	}
	s, err := c.service.Status(ctx)
	if err != nil {
		gauge(c.ready, 0)
		return
	}
	gauge(c.build, 1, s.Version)
	gauge(c.ready, truth(s.Ready))
	gauge(c.agents, float64(s.Agents))
	gauge(c.records, float64(s.Memories), "memory")
	gauge(c.records, float64(s.Episodes), "episode")
	gauge(c.queue, float64(s.Queue.Pending), "pending")
	gauge(c.queue, float64(s.Queue.Failed), "failed")
	gauge(c.queue, float64(s.Queue.Unembeddable), "unembeddable")
	gauge(c.wal, float64(s.WALBytes))
	gauge(c.reader, float64(s.OldestReaderSeconds))
	gauge(c.erase, truth(s.ErasePending))
}

func truth(b bool) float64 {
	if b {
		return 1
	}
	return 0
}
