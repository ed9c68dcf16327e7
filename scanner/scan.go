package scanner

import (
	"context"
	"fmt"
	"slices"

	"recalld/layout"
	scannerv1 "recalld/proto/recalld/scanner/v1"
	"recalld/scanner/kernel"
)

// maxWanted is how many rows or parents one query may ask for.
const maxWanted = 100_000

// scan answers one request, in one pass with others that are alike.
func (s *Server) scan(ctx context.Context, st *state, r *scannerv1.ScanRequest) (*scannerv1.ScanReply, error) {
	m, err := st.model(r.GetSequence(), r.GetModel())
	if err != nil {
		return nil, err
	}
	queries, err := m.queries(r)
	if err != nil {
		return nil, err
	}
	of, err := rowsOfRequest(r.GetScope(), r.GetOnly())
	if err != nil {
		return nil, err
	}
	of.perParent = int(r.GetPerParent())
	asked := &asked{ctx: ctx, queries: queries, most: r.GetMost(), done: make(chan struct{})}
	if err := s.passes.ask(asked, st, r.GetModel(), of, r.GetBatch()); err != nil {
		return nil, err
	}
	reply := &scannerv1.ScanReply{State: st.wire()}
	if asked.plan.over(r.GetMost()) {
		reply.Over = true
		return reply, nil
	}
	reply.RowsScanned, reply.RowsRead = asked.plan.scanned, asked.plan.read
	for i, a := range asked.answers {
		answer, err := m.answer(a, r.GetQueries()[i].GetValues())
		if err != nil {
			return nil, err
		}
		reply.Answers = append(reply.Answers, answer)
	}
	return reply, nil
}

// model is the rows to read, if the state reaches as far as was asked.
func (s *state) model(sequence, number int64) (*model, error) {
	if sequence > s.sequence {
		return nil, fmt.Errorf("%w: it is at change %d, %d was asked for", errBehind, s.sequence, sequence)
	}
	m := s.models[number]
	if m == nil {
		return nil, invalid("model", "%d is not published", number)
	}
	return m, nil
}

// rowsOfRequest checks which rows a request wants.
func rowsOfRequest(scope *scannerv1.Scope, only *scannerv1.Only) (rowsOf, error) {
	if scope == nil {
		return rowsOf{}, invalid("scope", "is missing")
	}
	return rowsOf{scope: layout.Scope{Agent: scope.GetAgent(), Project: scope.Project, Channel: scope.Channel}, only: only}, checkOnly(only)
}

// queries checks a request's and makes the kernel's of them.
func (m *model) queries(r *scannerv1.ScanRequest) ([]kernel.Query, error) {
	if n := len(r.GetQueries()); n < 1 || n > kernel.MaxQueries {
		return nil, invalid("queries", "are %d, not 1 to %d", n, kernel.MaxQueries)
	}
	var queries []kernel.Query
	for _, q := range r.GetQueries() {
		if n := len(q.GetCode()); n != (m.source.Dims+7)/8 {
			return nil, invalid("queries.code", "has %d bytes, the model has %d components", n, m.source.Dims)
		}
		if n := len(q.GetValues()); n != 0 && n != m.source.Dims {
			return nil, invalid("queries.values", "are %d, the model has %d components", n, m.source.Dims)
		}
		if q.GetRows() > maxWanted || q.GetParents() > maxWanted {
			return nil, invalid("queries", "ask for %d rows and %d parents, at most %d can be had", q.GetRows(), q.GetParents(), maxWanted)
		}
		code := append(slices.Clone(q.GetCode()), make([]byte, m.stride()-len(q.GetCode()))...)
		queries = append(queries, kernel.Query{Code: code, Rows: int(q.GetRows()), Parents: int(q.GetParents())})
	}
	return queries, nil
}
