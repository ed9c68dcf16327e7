package api

import (
	"net/http"
	"slices"
	"testing"
	"time"

	"recalld/coordinator"
	"recalld/proto/recalld/v1/recalldv1connect"
)

// BenchmarkOverhead measures what a front adds: the median of one recall in
// process, of the same recall over the unix socket, and over TCP behind a guard,
// taken in turns so that all three see the same machine.
func BenchmarkOverhead(b *testing.B) {
	service, socket := filled(b)
	url, _ := overTCP(b, service, nil)
	tcp := dialed(url, opsToken)
	b.Cleanup(func() { _ = tcp.Close() })
	request := coordinator.RecallRequest{Agent: "ann", Query: "the float switch on pump P2"}
	ways := []struct {
		name string
		s    coordinator.Service
	}{{"process", service}, {"socket", socket}, {"tcp", tcp}}
	times := make([][]time.Duration, len(ways))
	for b.Loop() {
		for i, way := range ways {
			start := time.Now()
			if _, err := way.s.Recall(b.Context(), request); err != nil {
				b.Fatal(err)
			}
			times[i] = append(times[i], time.Since(start))
		}
	}
	var medians []float64
	for i, way := range ways {
		slices.Sort(times[i])
		medians = append(medians, float64(times[i][len(times[i])/2].Nanoseconds())/1e6)
		b.ReportMetric(medians[i], way.name+"-p50-ms")
	}
	b.ReportMetric(medians[1]-medians[0], "socket-adds-ms")
	b.ReportMetric(medians[2]-medians[0], "tcp-adds-ms")
}

// dialed returns a client of a server behind a guard.
func dialed(url, token string) *Client {
	transport := &http.Transport{MaxIdleConnsPerHost: 64}
	return &Client{calls: recalldv1connect.NewMemoryServiceClient(&http.Client{Transport: transport}, url, withToken(token)), transport: transport}
}
