package bench

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"recalld/coordinator"
	"recalld/memory"
)

// WriteReport writes one page of tables, and its charts beside it as SVG under
// the page's name. The same results give the same bytes. It returns the names of
// the files, the page first.
func WriteReport(r *Results, page string) (files []string, err error) {
	if filepath.Ext(page) != ".md" {
		return nil, &memory.FieldError{Field: "out", Problem: memory.Shape(filepath.Base(page)) + " is no page", Limit: "a name that ends in .md", Next: "name one, such as docs/benchmarks/ladder.md"}
	}
	if len(r.Rungs) == 0 && len(r.Peers) == 0 && len(r.Loads) == 0 {
		return nil, errors.New("report: the files have no figures")
	}
	base := strings.TrimSuffix(filepath.Base(page), ".md")
	w := &reportPage{r: r, base: base, folder: filepath.Dir(page), files: []string{page}}
	if err := w.write(); err != nil {
		return nil, fmt.Errorf("report: %w", err)
	}
	return w.files, os.WriteFile(page, []byte(w.out.String()), 0o644)
}

// reportPage is a page as it grows.
type reportPage struct {
	r            *Results
	base, folder string
	out          strings.Builder
	files        []string
}

func (w *reportPage) write() error {
	title := "The ladder: cost, quality and memory against size"
	switch {
	case len(w.r.Rungs) > 0:
	case len(w.r.Peers) > 0:
		title = "Peers: the same work by other programs"
	default:
		title = "Load: many clients at once"
	}
	w.line("# " + title)
	w.line("")
	w.line("Made by `recalld bench report` from the files below; do not edit. [README.md](README.md) says what the fields are.")
	w.runs()
	if len(w.r.Rungs) > 0 {
		w.line("")
		w.line("Records are generated in English, Japanese and Chinese, about twenty blocks each. Questions ask for statements that are hidden in them: `exact` in")
		w.line("their words, `paraphrase` in words that share no content word with them, `tail_…` for those behind what the embedding window reads.")
		w.line("Times are of the second of two equal recalls, so that embedding is not in them; `block` is what the block arm adds to the vector arm,")
		w.line("`answer` a listing without any arm. Processor time is of a recall on average, and tells more than the clock where the load, over a minute, is above")
		w.line("the number of cores. Memory is the peak of a process, in MiB. The page cache is warm.")
	}
	if load, cores := w.busiest(); load > cores {
		w.line("")
		w.line(fmt.Sprintf("**The machine was busy**: a load of up to %.0f on %.0f cores while these were measured. Counts, sizes and hits do not know; times do.", load, cores))
	}
	for _, section := range []func() error{w.latency, w.slopes, w.quality, w.memory, w.neighbour, w.vectors, w.peers, w.load} {
		if err := section(); err != nil {
			return err
		}
	}
	return nil
}

// busiest is the highest load of any rung, or before any load of the bench's own, and
// the fewest cores of any machine.
func (w *reportPage) busiest() (load, cores float64) {
	for _, r := range w.r.Rungs {
		load = max(load, r.Load[0], r.Load[1])
	}
	for _, l := range w.r.Loads {
		load = max(load, l.LoadReport.Load[0])
	}
	for _, run := range w.r.Runs {
		if n := float64(run.Machine.Cores); cores == 0 || n > 0 && n < cores {
			cores = n
		}
	}
	return load, cores
}

func (w *reportPage) line(text string) {
	w.out.WriteString(text)
	w.out.WriteByte('\n')
}

// table writes a table whose first row is its head; none when there is no other.
func (w *reportPage) table(rows [][]string) {
	if len(rows) < 2 {
		return
	}
	w.line("")
	for i, row := range rows {
		w.line("| " + strings.Join(row, " | ") + " |")
		if i == 0 {
			w.line("|" + strings.Repeat("---|", len(row)))
		}
	}
}

// draw writes a chart and its place in the page; nothing when it has no line.
func (w *reportPage) draw(c chart) error {
	svg, err := c.svg()
	if err != nil || svg == nil {
		return err
	}
	name := w.base + "-" + c.name + ".svg"
	path := filepath.Join(w.folder, name)
	w.files = append(w.files, path)
	w.line("")
	w.line("![" + c.title + "](" + name + ")")
	return os.WriteFile(path, svg, 0o644)
}

func (w *reportPage) runs() {
	rows := [][]string{{"file", "measured", "version", "machine", "command"}}
	for _, run := range w.r.Runs {
		m := run.Machine
		machine := strings.TrimPrefix(fmt.Sprintf("%s, %d cores, %s", m.CPU, m.Cores, m.Platform), ", ")
		rows = append(rows, []string{run.Name, m.Date, m.Version, cell(machine), "`" + cell(m.Command) + "`"})
	}
	w.table(rows)
}

// cell keeps a text from ending a table's cell.
func cell(text string) string {
	return strings.NewReplacer("|", "/", "`", "'", "\n", " ").Replace(text)
}

// stored are the shapes over a store.
func stored() []string { return []string{ShapeOne, ShapeZipf, ShapeTiny, ShapeNeighbour} }

func (w *reportPage) latency() error {
	arms := []string{recallLexical, recallVector, recallBlock, recallAnswer}
	rows := [][]string{{"shape", "records", "blocks", "scanner", "recall p50, ms", "p95", "p99", "lexical p50", "vector p50", "block p50", "answer p50", "processor time: coordinator", "scanner", "first recall", "load"}}
	whole := chart{name: "recall", title: "Recall, p50, all arms, against records", x: "records", y: "ms"}
	parts := chart{name: "arms", title: "Parts of a recall in one cell, p50", x: "records", y: "ms"}
	for _, shape := range stored() {
		xs, ys := series(w.r.of(shape), func(r LadderRung) float64 { return r.RecallMS.P50 })
		whole.lines = append(whole.lines, chartLine{name: shape, xs: xs, ys: ys}, fitted(FitCost(xs, ys), xs))
		for _, r := range w.r.of(shape) {
			row := []string{shape, count64(int64(r.Records)), count64(r.Blocks), r.Scanner, ms(r.RecallMS.P50), ms(r.RecallMS.P95), ms(r.RecallMS.P99)}
			for _, arm := range arms {
				row = append(row, ms(r.ArmMS[arm].P50))
			}
			rows = append(rows, append(row, ms(r.CPU["coordinator"]), ms(r.CPU["scanner"]), ms(r.FirstMS), fmt.Sprintf("%.1f", max(r.Load[0], r.Load[1]))))
		}
	}
	if len(rows) == 1 {
		return nil
	}
	for _, arm := range arms {
		xs, ys := series(w.r.of(ShapeOne), func(r LadderRung) float64 { return r.ArmMS[arm].P50 })
		parts.lines = append(parts.lines, chartLine{name: arm, xs: xs, ys: ys}, fitted(FitCost(xs, ys), xs))
	}
	w.line("")
	w.line("## Latency")
	w.table(rows)
	if err := w.draw(whole); err != nil {
		return err
	}
	return w.draw(parts)
}

func series(rungs []LadderRung, value func(LadderRung) float64) (xs, ys []float64) {
	for _, r := range rungs {
		xs, ys = append(xs, float64(r.Records)), append(ys, value(r))
	}
	return xs, ys
}

// codeBytes is what the block arm reads of one row: a sign a dimension.
func codeBytes(r LadderRung) float64 { return float64(r.Dims) / 8 }

// vectorBytes is what the vector arm reads of one row: int8 in the scanner, float32
// without one.
func vectorBytes(r LadderRung) float64 {
	if r.Scanner == coordinator.ScannerAuto {
		return float64(r.Dims)
	}
	return float64(r.Dims) * 4
}

// megabytes is a number of bytes in millions, and nothing for none.
func megabytes(bytes float64) string {
	if bytes > 0 && bytes < 10_000 {
		return "under 0.01"
	}
	return ms(bytes / 1e6)
}

// leastGrowth is how many times the smallest size the largest one must be for a
// fit between them to say anything.
const leastGrowth = 3

// slopes are fits of cost against what an arm reads.
func (w *reportPage) slopes() error {
	rows := [][]string{{"shape", "part", "sizes", "exponent", "intercept, ms", "slope", "read a question, at the largest size", "MB"}}
	for _, shape := range stored() {
		rungs := w.r.of(shape)
		if len(rungs) < 2 {
			continue
		}
		largest := rungs[len(rungs)-1]
		for _, part := range []string{recallAll, recallLexical, recallVector, recallBlock} {
			unit, size := "records", func(r LadderRung) float64 { return float64(r.Records) }
			rowBytes := func(LadderRung) float64 { return 0 }
			switch part {
			case recallBlock:
				unit, size, rowBytes = "codes of blocks", func(r LadderRung) float64 { return r.RowsScanned[recallBlock] }, codeBytes
			case recallVector:
				unit, size, rowBytes = "vectors", func(r LadderRung) float64 { return r.RowsScanned[recallVector] }, vectorBytes
			case recallLexical:
				unit, size, rowBytes = "postings", func(r LadderRung) float64 { return r.Postings }, func(r LadderRung) float64 { return r.PostingBytes }
			}
			read, bytes := "", float64(size(largest)*rowBytes(largest))
			if part != recallAll {
				read = count64(int64(size(largest)+.5)) + " " + unit
			}
			var xs, ys []float64
			for _, r := range rungs {
				l := r.RecallMS
				if part != recallAll {
					l = r.ArmMS[part]
				}
				xs, ys = append(xs, size(r)), append(ys, l.P50)
			}
			f := FitCost(xs, ys)
			if !f.OK || slices.Max(xs) < leastGrowth*slices.Min(xs) {
				continue
			}
			rows = append(rows, []string{shape, part, strconv.Itoa(len(rungs)), fmt.Sprintf("%.2f", f.Exponent), ms(f.Intercept), ms(f.Slope*1e6) + " ms a million " + unit, read, megabytes(bytes)})
		}
	}
	if len(rows) == 1 {
		return nil
	}
	w.line("")
	w.line("## Growth")
	w.line("")
	w.line("How the median time of each part (p50) grows from the smallest size to the largest. *Exponent*: the time is about size to this power; 0, size costs nothing;")
	w.line("1, twice the size takes twice the time. *Intercept* and *slope*: the straight line nearest to the measured times, dashed in the charts: what a recall costs")
	w.line("whatever the size, and what each million more to go through adds. Both by least squares of relative errors; two or three sizes make a summary, not a law. *Read a")
	w.line("question*: what the part goes through to find its candidates, and its bytes: postings as they are coded, int8 vectors, and one bit a dimension for blocks.")
	w.line("The few hundred vectors that put the best candidates in order come on top. A part without a row read too nearly the same amount at all sizes.")
	w.table(rows)
	return nil
}

func (w *reportPage) quality() error {
	rows := [][]string{{"shape", "records"}}
	for _, kind := range needleKinds() {
		rows[0] = append(rows[0], kind+" hit@1", "hit@10")
	}
	rows[0] = append(rows[0], "questions", "text of an answer, code points", "bytes of JSON", "degraded answers")
	c := chart{name: "quality", title: "Answers that hold the needle, against their text", x: "code points of an answer", y: "share of all questions", linear: true}
	for _, shape := range stored() {
		for _, r := range w.r.of(shape) {
			row := []string{shape, count64(int64(r.Records))}
			asked := 0
			for _, kind := range needleKinds() {
				row = append(row, proportion(r.HitAt1[kind]), proportion(r.HitAt10[kind]))
				asked += r.Questions[kind]
			}
			var degraded []string
			for _, reason := range slices.Sorted(maps.Keys(r.Degraded)) {
				degraded = append(degraded, fmt.Sprintf("%s: %d", reason, r.Degraded[reason]))
			}
			rows = append(rows, append(row, strconv.Itoa(asked), count64(int64(r.PayloadChars)), count64(int64(r.PayloadBytes)), cell(strings.Join(degraded, "; "))))
			if shape == ShapeOne {
				l := chartLine{name: count64(int64(r.Records)) + " records"}
				for _, p := range r.Payload {
					l.xs, l.ys = append(l.xs, p.Chars), append(l.ys, p.Hit)
				}
				c.lines = append(c.lines, l)
			}
		}
	}
	if len(rows) == 1 {
		return nil
	}
	w.line("")
	w.line("## Quality")
	w.line("")
	w.line("Reserved rows, which stand behind the ten, count in the chart and not in hit@10. The points of a line are answers of 1, 3, 5, 10 and 20 rows.")
	w.table(rows)
	return w.draw(c)
}

func (w *reportPage) memory() error {
	rows := [][]string{{"shape", "records", "coordinator, MiB", "scanner, MiB", "coordinator while building", "truth, MB", "derived, MB", "bytes a record: text", "truth", "derived", "stores/s", "blocks/s", "derived built in, s"}}
	c := chart{name: "memory", title: "Memory and files, one cell", x: "records", y: "MB"}
	for _, shape := range stored() {
		for _, r := range w.r.of(shape) {
			rows = append(rows, []string{shape, count64(int64(r.Records)), whole(r.RSS["coordinator"]), whole(r.RSS["scanner"]), whole(r.RSS["coordinator_build"]), ms(r.Files["truth"]), ms(r.Files["derived"]),
				whole(r.PerFile["text"]), whole(r.PerFile["truth"]), whole(r.PerFile["derived"]), whole(r.Stores), whole(r.BlockPer), ms(r.Derive)})
		}
	}
	if len(rows) == 1 {
		return nil
	}
	for _, name := range []string{"coordinator", "scanner"} {
		xs, ys := series(w.r.of(ShapeOne), func(r LadderRung) float64 { return r.RSS[name] })
		c.lines = append(c.lines, chartLine{name: "memory of the " + name, xs: xs, ys: ys})
	}
	for _, name := range []string{"truth", "derived"} {
		xs, ys := series(w.r.of(ShapeOne), func(r LadderRung) float64 { return r.Files[name] })
		c.lines = append(c.lines, chartLine{name: "files: " + name, xs: xs, ys: ys})
	}
	w.line("")
	w.line("## Memory, files, building")
	w.table(rows)
	return w.draw(c)
}

func (w *reportPage) neighbour() error {
	rows := [][]string{{"records of the neighbour", "of the small agent", "p50 alone, ms", "beside", "ratio (95 %)", "p95 alone", "beside", "ratio (95 %)", "processor time alone, ms", "beside", "vectors scanned alone, beside", "blocks", "postings", "same answers"}}
	pair := func(a, b float64) string { return count64(int64(a)) + ", " + count64(int64(b)) }
	for _, r := range w.r.of(ShapeNeighbour) {
		n := r.Neighbour
		if n == nil {
			continue
		}
		a, b := n.Alone, n.Beside
		ratios := func(name string) string {
			x, ok := n.Ratios[name]
			if !ok {
				return ""
			}
			return fmt.Sprintf("%.2f (%.2f to %.2f)", x.Ratio, x.Low, x.High)
		}
		rows = append(rows, []string{count64(int64(r.Records)), count64(int64(n.Records)), ms(a.RecallMS.P50), ms(b.RecallMS.P50), ratios("p50"),
			ms(a.RecallMS.P95), ms(b.RecallMS.P95), ratios("p95"), ms(a.CPU), ms(b.CPU), pair(a.RowsScanned[recallVector], b.RowsScanned[recallVector]), pair(a.RowsScanned[recallBlock], b.RowsScanned[recallBlock]),
			pair(a.Postings, b.Postings), map[bool]string{true: "to the byte", false: "**no**"}[n.Same]})
	}
	if len(rows) == 1 {
		return nil
	}
	w.line("")
	w.line("## Beside a neighbour")
	w.line("")
	w.line("The small agent is asked in a file of its own and in one that it shares with the neighbour. Both are open, and each question goes to one and then to the other,")
	w.line("so that what else the machine does falls on both. The interval holds 95 % of the ratios of samples drawn from these turns.")
	w.table(rows)
	return nil
}

func (w *reportPage) vectors() error {
	rungs := w.r.of(ShapeVectors)
	if len(rungs) == 0 {
		return nil
	}
	rows := [][]string{{"rows", "bits", "path", "reading, ms", "kernel", "kernel to reading", "through a process", "hit@1 of planted rows"}}
	c := chart{name: "vectors", title: "Scan of random codes, one thread, p50", x: "rows", y: "ms"}
	for _, r := range rungs {
		rows = append(rows, []string{count64(int64(r.Records)), strconv.Itoa(r.Dims), r.Path, ms(r.ArmMS["read"].P50), ms(r.ArmMS["kernel"].P50),
			fmt.Sprintf("%.2f", ratio(r.ArmMS["kernel"].P50, r.ArmMS["read"].P50)), ms(r.ArmMS["plugin"].P50), proportion(r.HitAt1[askExact])})
	}
	var fits []string
	for _, name := range []string{"read", "kernel", "plugin"} {
		xs, ys := series(rungs, func(r LadderRung) float64 { return r.ArmMS[name].P50 })
		f := FitCost(xs, ys)
		c.lines = append(c.lines, chartLine{name: name, xs: xs, ys: ys}, fitted(f, xs))
		if f.OK {
			fits = append(fits, fmt.Sprintf("%s %s ms + %s ms a million rows, exponent %.2f", name, ms(f.Intercept), ms(f.Slope*1e6), f.Exponent))
		}
	}
	w.line("")
	w.line("## Codes alone")
	w.table(rows)
	if len(fits) > 0 {
		w.line("")
		w.line("Fits: " + strings.Join(fits, "; ") + ".")
	}
	return w.draw(c)
}

// peers are tables and a chart of each task.
func (w *reportPage) peers() error {
	type key struct {
		task                       string
		dims, k, threads, together int
	}
	groups := map[key][]PeerRow{}
	var keys []key
	for _, row := range w.r.Peers {
		k := key{row.Task, row.Dims, row.K, row.Threads, row.Together}
		if groups[k] == nil {
			keys = append(keys, k)
		}
		groups[k] = append(groups[k], row)
	}
	if len(keys) > 0 {
		w.line("")
		w.line("## Peers")
		w.line("")
		w.line("The same vectors and questions, in turns, in one run. Times are of a call.")
	}
	for i, k := range keys {
		title := fmt.Sprintf("%s, %d dimensions, k = %d, %d threads, %d queries a call", k.task, k.dims, k.k, k.threads, k.together)
		w.line("")
		w.line("### " + cell(title))
		rows := [][]string{{"rows", "program", "p50, ms", "p95, ms", "best", "recall", "memory, MB", "p50, of recalld's"}}
		c := chart{name: fmt.Sprintf("peers-%d", i+1), title: title, x: "rows", y: "ms, p50"}
		for _, row := range groups[k] {
			name := cell(strings.TrimSpace(row.Name + " " + row.Version))
			rows = append(rows, []string{count64(int64(row.N)), name, ms(row.P50), ms(row.P95), ms(row.Best), proportion(row.Recall), whole(row.RSS), besideOurs(groups[k], row)})
			at := slices.IndexFunc(c.lines, func(l chartLine) bool { return l.name == row.Name })
			if at < 0 {
				c.lines, at = append(c.lines, chartLine{name: row.Name}), len(c.lines)
			}
			c.lines[at].xs, c.lines[at].ys = append(c.lines[at].xs, float64(row.N)), append(c.lines[at].ys, row.P50)
		}
		slices.SortFunc(c.lines, func(a, b chartLine) int { return strings.Compare(a.name, b.name) })
		w.table(rows)
		if err := w.draw(c); err != nil {
			return err
		}
	}
	if len(w.r.Skipped) > 0 {
		w.line("")
		w.line("Left out:")
		w.line("")
		for _, s := range w.r.Skipped {
			w.line(cell(fmt.Sprintf("- %s, %s: %s", s.Name, s.Task, s.Reason)))
		}
	}
	return nil
}

// besideOurs is a program's time as a multiple of recalld's fastest at that size.
func besideOurs(rows []PeerRow, row PeerRow) string {
	for _, ours := range rows { // fastest first
		if ours.N == row.N && strings.HasPrefix(ours.Name, "recalld") && ours.P50 > 0 {
			return fmt.Sprintf("%.2f", row.P50/ours.P50)
		}
	}
	return ""
}

// ms is a number with about three digits.
func ms(x float64) string {
	switch a := max(x, -x); {
	case x == 0:
		return ""
	case a < 10:
		return strconv.FormatFloat(x, 'f', 2, 64)
	case a < 100:
		return strconv.FormatFloat(x, 'f', 1, 64)
	}
	return count64(int64(x + .5))
}

func proportion(x float64) string { return strconv.FormatFloat(x, 'f', 3, 64) }

func whole(x float64) string {
	if x == 0 {
		return ""
	}
	return count64(int64(x + .5))
}

// count64 is a whole number with commas between thousands.
func count64(n int64) string {
	text := strconv.FormatInt(n, 10)
	sign := ""
	if n < 0 {
		sign, text = "-", text[1:]
	}
	for i := len(text) - 3; i > 0; i -= 3 {
		text = text[:i] + "," + text[i:]
	}
	return sign + text
}
