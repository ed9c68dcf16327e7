package api

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"

	"recalld/coordinator"
)

// BenchmarkCalls measures small stores over a unix socket with 1 and 16
// clients, over HTTP/1.1 and HTTP/2, beside a bare HTTP exchange on a socket of
// the same machine (floor).
func BenchmarkCalls(b *testing.B) {
	socket := start(b, &scripted{store: func(context.Context, coordinator.StoreRequest) (coordinator.StoreResponse, error) {
		return coordinator.StoreResponse{Results: []coordinator.StoreResult{{Ref: "mem:1", Outcome: "stored", Embed: "done"}}}, nil
	}})
	request := coordinator.StoreRequest{Agent: "ann", Items: []coordinator.StoreItem{{Content: "The float switch on P2 was jammed.", Time: "2026-11-30T09:00:00+09:00"}}}
	http1, http2 := new(http.Protocols), new(http.Protocols)
	http1.SetHTTP1(true)
	http2.SetUnencryptedHTTP2(true)
	for _, clients := range []int{1, 16} {
		for name, protocols := range map[string]*http.Protocols{"http1": http1, "http2": http2} {
			b.Run(fmt.Sprintf("%s/clients=%d", name, clients), func(b *testing.B) {
				transport := overUnix(socket)
				transport.Protocols = protocols
				transport.MaxIdleConnsPerHost = 64
				client := newClient(transport)
				defer client.Close()
				share(b, clients, func() error {
					_, err := client.Store(b.Context(), request)
					return err
				})
			})
		}
		b.Run(fmt.Sprintf("floor/clients=%d", clients), func(b *testing.B) {
			transport := overUnix(bare(b))
			transport.MaxIdleConnsPerHost = 64
			raw := &http.Client{Transport: transport}
			defer transport.CloseIdleConnections()
			share(b, clients, func() error {
				response, err := raw.Get("http://floor/")
				if err != nil {
					return err
				}
				_, err = io.Copy(io.Discard, response.Body)
				response.Body.Close()
				return err
			})
		})
	}
}

// share divides b.N calls among the clients.
func share(b *testing.B, clients int, call func() error) {
	var left atomic.Int64
	left.Store(int64(b.N))
	var running sync.WaitGroup
	b.ResetTimer()
	for range clients {
		running.Go(func() {
			for left.Add(-1) >= 0 {
				if err := call(); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	running.Wait()
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "calls/s")
}

func bare(b *testing.B) (socket string) {
	b.Helper()
	socket = folder(b) + "/s"
	l, err := net.Listen("unix", socket)
	if err != nil {
		b.Fatal(err)
	}
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "ok") })}
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(l) }()
	b.Cleanup(func() {
		_ = server.Close()
		<-ended
	})
	return socket
}
