package bench

import (
	"fmt"
	"slices"
	"sort"
	"time"

	"recalld/coordinator"
	"recalld/memory"
)

// ladderPlan says which record is where in a rung. Records are numbered from 0 in
// the order in which they are stored, so that record i has the number i+1 in the
// file.
type ladderPlan struct {
	corpus *corpus
	shape  string
	total  int         // records, those of the small agent included
	starts []int       // first record of each agent
	holds  map[int]int // needles by record
	small  int         // of the shape neighbour
}

// zipfAgents is how many agents the shape zipf has, at ten records each or more.
const zipfAgents = 1_000

// tinyCells is how many cells of one record an agent has in the shape tiny.
const tinyCells = 10

func newLadderPlan(c *corpus, shape string, n, small int) *ladderPlan {
	p := &ladderPlan{corpus: c, shape: shape, total: n, starts: []int{0}, holds: map[int]int{}}
	asked := n // needles are among the first so many
	switch shape {
	case ShapeZipf:
		p.starts = zipfStarts(n, min(zipfAgents, max(1, n/tinyCells)))
	case ShapeTiny:
		p.starts = nil
		for start := 0; start < n; start += tinyCells {
			p.starts = append(p.starts, start)
		}
	case ShapeNeighbour:
		p.small, p.total, asked = small, n+small, small
		p.starts = []int{0, small}
	}
	needles := min(len(c.needles), asked/2)
	for i := range needles {
		// From the oldest record to the newest, one at rank half by age.
		p.holds[i*asked/needles] = i
	}
	return p
}

// zipfStarts cuts n records into agents whose sizes fall as one over their rank,
// the largest first.
func zipfStarts(n, agents int) []int {
	sum := 0.0
	for rank := 1; rank <= agents; rank++ {
		sum += 1 / float64(rank)
	}
	starts := make([]int, agents)
	at := 0.0
	for i := range starts {
		// Never fewer than one record.
		starts[i] = max(int(float64(at*float64(n))/sum), i)
		at += 1 / float64(i+1)
	}
	return starts
}

// agent is the number of the agent that owns a record, from 0.
func (p *ladderPlan) agent(record int) int {
	return sort.Search(len(p.starts), func(i int) bool { return p.starts[i] > record }) - 1
}

// end is the first record that is not the agent's.
func (p *ladderPlan) end(agent int) int {
	if agent+1 < len(p.starts) {
		return p.starts[agent+1]
	}
	return p.total
}

// scope is where a record is, and where it is asked for.
func (p *ladderPlan) scope(record int) memory.Scope {
	agent := p.agent(record)
	s := memory.Scope{Agent: fmt.Sprintf("agent-%d", agent)}
	if p.shape == ShapeTiny {
		project := fmt.Sprintf("project-%d", record-p.starts[agent])
		s.Project = &project
	}
	return s
}

// cells is how many cells the records are in.
func (p *ladderPlan) cells() int {
	if p.shape == ShapeTiny {
		return p.total
	}
	return len(p.starts)
}

// ladderSession is how many records have one source.
const ladderSession = 20

// item is a record to store.
func (p *ladderPlan) item(record int) coordinator.StoreItem {
	scope := p.scope(record)
	nth := record - p.starts[p.agent(record)]
	item := coordinator.StoreItem{Content: p.text(record), Time: time.UnixMilli(ladderBegin + int64(nth)*60_000).UTC().Format(time.RFC3339)}
	item.Source.ID = fmt.Sprintf("session-%d", nth/ladderSession)
	if scope.Project != nil {
		item.Project = *scope.Project
	}
	return item
}

// ladderBegin is when an agent's first record was, in UTC milliseconds.
const ladderBegin = 1_700_000_000_000

func (p *ladderPlan) text(record int) string {
	if n, ok := p.holds[record]; ok {
		return p.corpus.hold(p.corpus.needles[n], record)
	}
	return p.corpus.plain(record)
}

// ladderQuestion is one question and the record that answers it.
type ladderQuestion struct {
	kind  string
	scope memory.Scope
	text  string
	ref   string
}

// questions are those about every needle, oldest needle first, at most limit of a
// kind, which are then spread over the ages.
func (p *ladderPlan) questions(limit int) (all []ladderQuestion) {
	records := make([]int, 0, len(p.holds))
	for record := range p.holds {
		records = append(records, record)
	}
	slices.Sort(records)
	byKind := map[string][]ladderQuestion{}
	for _, record := range records {
		n := p.corpus.needles[p.holds[record]]
		for _, kind := range n.kinds() {
			ref := memory.Ref{Kind: memory.KindMemory, ID: int64(record) + 1}
			byKind[kind] = append(byKind[kind], ladderQuestion{kind, p.scope(record), n.question(kind), ref.String()})
		}
	}
	for _, kind := range needleKinds() {
		of := byKind[kind]
		n := len(of)
		if limit > 0 {
			n = min(n, limit)
		}
		for i := range n {
			all = append(all, of[i*len(of)/n])
		}
	}
	return all
}
