package bench

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// load are tables and charts of servers under many clients.
func (w *reportPage) load() error {
	if len(w.r.Loads) == 0 {
		return nil
	}
	rows := [][]string{{"file", "clients", "operation", "answered a second", "p50, ms", "p95", "p99", "answered", "turned away", "which took, ms", "errors", "load of the machine before, after"}}
	recovery := [][]string{{"file", "clients", "operation", "p50 before, ms", "after", "p95 before", "after", "turned away after"}}
	for _, l := range w.r.Loads {
		clients := count64(int64(l.Clients))
		for _, op := range l.Operations {
			var wrong []string
			for _, kind := range slices.Sorted(maps.Keys(op.Errors)) {
				wrong = append(wrong, fmt.Sprintf("%s: %d", kind, op.Errors[kind]))
			}
			rows = append(rows, []string{l.Name, clients, op.Name, ms(op.PerSecond), ms(op.P50), ms(op.P95), ms(op.P99), count64(int64(op.Answered)), strconv.Itoa(op.Shed), ms(op.ShedP50), strings.Join(wrong, "; "), fmt.Sprintf("%.1f, %.1f", l.Load[0], l.Load[1])})
			before, after := opOf(l.Before, op.Name), opOf(l.After, op.Name)
			recovery = append(recovery, []string{l.Name, clients, op.Name, ms(before.P50), ms(after.P50), ms(before.P95), ms(after.P95), strconv.Itoa(after.Shed)})
		}
	}
	w.line("")
	w.line("## Load")
	w.line("")
	w.line("Each client has one call at a time and makes the next one when it is answered, so that many clients wait for one another. A server takes a bounded number of calls")
	w.line("in hand and lets a bounded number wait; further ones are turned away at once, and come again after the second that the server names. Times are of answered calls.")
	w.line("The machine's load counts the bench's own clients; above the number of cores before it began, others were at work.")
	w.table(rows)
	throughput := chart{name: "throughput", title: "Calls answered a second, against clients", x: "clients", y: "calls a second"}
	latency := chart{name: "latency", title: "Latency of answered calls, p50 and p95, against clients", x: "clients", y: "ms"}
	usual := w.r.usualLoads()
	for _, name := range []string{LoadRecall, LoadStore} {
		rate, middle, late := chartLine{name: name}, chartLine{name: name + ", p50"}, chartLine{name: name + ", p95"}
		for _, l := range usual {
			op, x := opOf(l.Operations, name), float64(l.Clients)
			rate.xs, rate.ys = append(rate.xs, x), append(rate.ys, op.PerSecond)
			middle.xs, middle.ys = append(middle.xs, x), append(middle.ys, op.P50)
			late.xs, late.ys = append(late.xs, x), append(late.ys, op.P95)
		}
		throughput.lines, latency.lines = append(throughput.lines, rate), append(latency.lines, middle, late)
	}
	for _, c := range []chart{throughput, latency} {
		if err := w.draw(c); err != nil {
			return err
		}
	}
	w.line("")
	w.line("One client alone makes the same calls before the load and after it: a server that has recovered answers as before and turns nobody away.")
	w.table(recovery)
	return nil
}

// opOf is the operation of a name; none was called: zero.
func opOf(ops []LoadOp, name string) LoadOp {
	for _, op := range ops {
		if op.Name == name {
			return op
		}
	}
	return LoadOp{}
}

// usualLoads are the loads of a chart, one a number of clients: the first of each
// in the order of files.
func (r *Results) usualLoads() (loads []LoadRun) {
	for _, l := range r.Loads {
		if len(loads) == 0 || loads[len(loads)-1].Clients != l.Clients {
			loads = append(loads, l)
		}
	}
	return loads
}
