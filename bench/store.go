package bench

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"sync"
	"time"

	"recalld/coordinator"
	"recalld/sqlite/baseline"
)

// StoreOptions of [Store].
type StoreOptions struct {
	Folder  string // an empty folder on the disk that is measured
	Records int    // per run
	Clients int    // of the concurrent run
	// Dial opens one more client of the server.
	Dial  func() (coordinator.Service, error)
	Clock func() time.Time
}

// StoreReport counts durable single-record stores per second. Ratio compares
// one client with the bare loop of the same run.
type StoreReport struct {
	Bare       float64 `json:"bare_inserts_per_s"`
	One        float64 `json:"one_client_per_s"`
	Ratio      float64 `json:"one_client_to_bare"`
	Clients    int     `json:"clients"`
	Concurrent float64 `json:"concurrent_per_s"`
	Records    int     `json:"records_per_run"`
	Machine    Machine `json:"machine"`
}

// Store measures the bare loop and one client in turns, three times each, and
// takes the medians; then all clients at once. Numbers below 1 are a
// *[memory.FieldError].
func Store(ctx context.Context, o StoreOptions) (*StoreReport, error) {
	if err := errors.Join(atLeastOne("records", o.Records), atLeastOne("clients", o.Clients)); err != nil {
		return nil, err
	}
	one, err := o.Dial()
	if err != nil {
		return nil, err
	}
	var bare, single []time.Duration
	for round := range 3 {
		took, err := baseline.Inserts(ctx, o.Clock, filepath.Join(o.Folder, fmt.Sprintf("bare-%d.db", round)), storeText(round), o.Records)
		if err != nil {
			return nil, err
		}
		bare = append(bare, took)
		start := o.Clock()
		if err := storeMany(ctx, one, fmt.Sprintf("one-%d", round), o.Records); err != nil {
			return nil, err
		}
		single = append(single, o.Clock().Sub(start))
	}
	start := o.Clock()
	var wait sync.WaitGroup
	failures := make(chan error, o.Clients)
	for client := range o.Clients {
		service, err := o.Dial()
		if err != nil {
			return nil, err
		}
		wait.Go(func() { failures <- storeMany(ctx, service, fmt.Sprintf("many-%d", client), o.Records) })
	}
	wait.Wait()
	took := o.Clock().Sub(start)
	for range o.Clients {
		if err := <-failures; err != nil {
			return nil, err
		}
	}
	perSecond := func(n int, d time.Duration) float64 { return round(float64(n) / d.Seconds()) }
	report := &StoreReport{
		Bare: perSecond(o.Records, median(bare)), One: perSecond(o.Records, median(single)),
		Clients: o.Clients, Concurrent: perSecond(o.Records*o.Clients, took), Records: o.Records,
	}
	report.Ratio = round(report.One / report.Bare)
	return report, nil
}

func median(d []time.Duration) time.Duration {
	return time.Duration(Quantile(d, .5) * float64(time.Millisecond))
}

func storeMany(ctx context.Context, s coordinator.Service, session string, n int) error {
	for i := range n {
		item := coordinator.StoreItem{Content: session + " " + storeText(i)}
		item.Source.ID = session
		answer, err := s.Store(ctx, coordinator.StoreRequest{Agent: "bench", Items: []coordinator.StoreItem{item}})
		if err != nil {
			return err
		}
		if r := answer.Results[0]; r.Outcome != "stored" {
			return fmt.Errorf("store %d of %s: %s %s", i, session, r.Outcome, r.Error)
		}
	}
	return nil
}

// storeText is about 200 bytes, different for every number.
func storeText(i int) string {
	return fmt.Sprintf("Note %d: the nightly export finished late again, so the importer on db-7 waited for %d minutes; Mei will look at the queue on Tuesday, 会議で共有する。", i, i%97)
}
